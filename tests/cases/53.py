# SPDX-License-Identifier: MIT
# The VM is linked in statically, stripped, and exports nothing.
import re

import caselib
from caselib import BUSY_IDEAL, busy

MODES = ["off", "on"]


def check(c, p, t):
    busy(c, p)


def offsets(p):
    return {f for f in p.frames() if re.match(r"^host\+0x", f)
            and p.share("^" + re.escape(f) + "$") > 0.5}


def more(c, tools, folder):
    """Native frames have one form in every run."""
    seen = []
    for _ in range(2):
        r = caselib.Run(tools, folder, {"CASE_JIT": "off"}, 10)
        try:
            r.start()
            seen.append(offsets(r.attach(duration=2)))
        finally:
            r.end()
    c.true(f"host+0x... the same in two runs ({sorted(seen[0])})",
           seen[0] and seen[0] == seen[1])


IDEAL = BUSY_IDEAL
TRUTH = {}

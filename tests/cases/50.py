# SPDX-License-Identifier: MIT
# The files that are mapped were deleted; others stand under their names.
from caselib import BUSY_IDEAL, busy
import caselib

MODES = ["off", "on"]
ENV = {"CASE_KIND": "exe"}


def check(c, p, t):
    busy(c, p)
    c.zero("symbols of the new files", p.count(
        lambda s: any(f in ("sin", "cos", "pow", "exp", "log") for f in s)))


def more(c, tools, folder):
    """The same for a deleted libluajit."""
    r = caselib.Run(tools, folder, {"CASE_KIND": "lib", "CASE_JIT": "off"}, 14)
    try:
        r.start()
        p = r.attach(duration=4)
        caselib.general(c, p, r)
        check(c, p, {})
    finally:
        r.end()


IDEAL = BUSY_IDEAL
TRUTH = {}

# SPDX-License-Identifier: MIT
# No room in /dev/shm, or a read-only one: the agent and the game do without.
from caselib import BUSY_IDEAL, Run, busy, os

MODES = ["off", "on"]
ENV = {"CASE_KIND": "tiny"}
ROOT = True


def check(c, p, t):
    busy(c, p)


def more(c, tools, folder):
    for kind in ("tiny", "none"):
        r = Run(tools, folder, {"CASE_KIND": kind}, 4)
        try:
            r.start()
            p = r.attach(duration=2)
            c.true(f"{kind}: status 0 ({r.status})", r.status == 0)
            c.samples = p.total  # few
            busy(c, p)
            frames = r.truth().get("frames", "0")
            c.true(f"{kind}: ends by itself ({frames} frames)", int(frames) > 0)
            with open(os.path.join(r.out, "target.err"), errors="replace") as f:
                c.most(f"{kind}: lines of warning", len(f.readlines()), 1)
        finally:
            r.end()


IDEAL = BUSY_IDEAL
TRUTH = {}

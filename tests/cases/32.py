# SPDX-License-Identifier: MIT
# The target sets every signal back to its default, again and again.
import time

from caselib import Run

MODES = [""]
WORK = r'^work \(\[string "function work\(\).*"\]:1\)$'


def check(c, p, t):
    c.least("work", p.share(WORK), 0.95)
    c.near("lua_pcall>work", p.pair("^lua_pcall$", WORK), p.share(WORK), 0.001)


def more(c, tools, folder):
    """Twenty sessions: a signal that comes after a reset would be deadly."""
    r = Run(tools, folder, {}, 10)
    try:
        r.start()
        began, fewest, failed = time.time(), 1 << 30, 0
        for _ in range(20):
            p = r.attach(duration=0.2, rate=1000)
            fewest = min(fewest, p.total)
            failed += r.status != 0
        c.most("seconds of twenty sessions", time.time() - began, 9.5)
        c.zero("sessions that failed", failed)
        c.least("samples of each", fewest, 1)
        c.true("survived", r.truth().get("survived") == "1")
    finally:
        r.end()


R = "_start;main;lua_pcall"
IDEAL = (f'{R};work ([string "function work() local s=0..."]:1)_[N] 980\n'
         f'{R};bye ([string "other"]:1)_[N] 20\n')
TRUTH = {}

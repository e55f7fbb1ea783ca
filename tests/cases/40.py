# SPDX-License-Identifier: MIT
# Asleep for four seconds, busy for one, again and again.
from caselib import MAIN, Run, fn, re

MODES = ["off", "on"]
SECS, LIFE = 10, 30  # two busy seconds, when nothing else is running
HOT, WORK, WAIT = fn("hot", 4), fn("work", 6), fn("wait", 5)


def general(c, p, r):
    from caselib import general as usual
    usual(c, p, r)
    c.near("seconds of samples, of CPU", p.total / 999, r.cpu, 0.25 * r.cpu)
    c.least("seconds of CPU", r.cpu, 0.9)


def check(c, p, t):
    c.least("work", p.share(WORK), 0.97)
    c.least("work>hot", p.pair(WORK, HOT), 0.95)
    c.most("wait", p.share(WAIT), 0.02)
    c.near("main>work", p.pair(MAIN, WORK), p.share(WORK), 0.001)


def more(c, tools, folder):
    r = Run(tools, folder, {}, 20)
    try:
        r.start()
        p = r.attach(duration=2)
        c.most("samples while it sleeps", p.total, 20)
        if not p.total:
            c.true("says that it was idle", re.search("target was idle", r.stderr))
        c.true("exit status 0", r.status == 0)
    finally:
        r.end()


IDEAL = ("_start;main;lua_pcall;main chunk (/x/t.lua);work (/x/t.lua:6);hot (/x/t.lua:4)_[N] 990\n"
         "_start;main;lua_pcall;main chunk (/x/t.lua);work (/x/t.lua:6)_[I] 10\n")
TRUTH = {}

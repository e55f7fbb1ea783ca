# SPDX-License-Identifier: MIT
# jit.zone has one stack a VM: what a coroutine opens is open while its resumer
# runs, and zone:flush() empties it.
from caselib import MAIN, fn, share_of

MODES = ["", "off"]
BURN, CO, MAIN_A = fn("burn", 3), fn("anonymous", 4), fn("main_a", 5)
TASK, NONE = "frame;task", ""


def zones(s):
    return ";".join(s[:s.index("_start")]) if "_start" in s else "[no root]"


def general(c, p, r):
    from caselib import general as usual
    usual(c, p, r, rooted=0)
    c.least("rooted below the zones", p.part(lambda s: "_start" in s), 0.98)


def check(c, p, t):
    c.near("frame;task", p.part(lambda s: zones(s) == TASK), 3 / 4, 0.03)
    c.near("no zone", p.part(lambda s: zones(s) == NONE), 1 / 4, 0.03)
    task = p.only(lambda s: zones(s) == TASK)
    none = p.only(lambda s: zones(s) == NONE)
    c.near("main_a in the task's zone", share_of(task, MAIN_A, BURN), 1 / 3, 0.03)
    c.near("the coroutine there", share_of(task, CO, BURN), 2 / 3, 0.03)
    c.near("main_a in no zone", share_of(none, MAIN_A, BURN), 1, 0.02)
    c.near("main > main_a", p.pair(MAIN, MAIN_A), 1 / 2, 0.03)


R = "_start;main;lua_pcall;main chunk (/x/t.lua);"
B = "burn (/x/t.lua:3)_[N]"
IDEAL = (f"frame;task;{R}anonymous (/x/t.lua:4);{B} 500\n"
         f"frame;task;{R}main_a (/x/t.lua:5);{B} 250\n"
         f"{R}main_a (/x/t.lua:5);{B} 250\n")
TRUTH = {}

# SPDX-License-Identifier: MIT
# Coroutines: their own frames, above those of whoever resumed them.
from caselib import FILE, MAIN, fn, is_under, lua_leaf, re, share_of  # noqa: F401

MODES = ["off", "on"]
WAITS = True
BURN, AI, INNER, OUTER = fn("burn", 3), fn("ai", 4), fn("inner", 5), fn("outer", 6)
WRAP, ONESHOT, FRAME = rf"^anonymous {FILE}:10\)$", rf"^anonymous {FILE}:11\)$", fn("frame", 15)
IN_ONESHOT = fn("oneshot", 11)


def check(c, p, t):
    c.near("ai", p.share(AI), t["ai"], 0.03)
    c.near("outer", p.share(OUTER), t["outer"], 0.03)
    c.near("wrap", p.share(WRAP), t["wrap"], 0.03)
    c.near("oneshot", p.share(IN_ONESHOT), t["oneshot"], 0.03)
    for what, outer, inner in (("main>frame", MAIN, FRAME), ("frame>ai", FRAME, AI),
                               ("outer>inner", OUTER, INNER), ("frame>wrap", FRAME, WRAP),
                               ("oneshot", IN_ONESHOT, ONESHOT)):
        c.near(what, p.under(outer, inner), p.share(inner), 0.005)
    for what, outer in (("ai>burn", AI), ("inner>burn", INNER), ("wrap>burn", WRAP),
                        ("oneshot>burn", ONESHOT)):
        c.near(what, p.pair(outer, BURN), p.share(outer), 0.02)
    c.most("partial", t["account"].get("partial", 0) / max(p.total, 1), 0.005)


R = "_start;main;lua_pcall;main chunk (/x/t.lua);frame (/x/t.lua:15);"
BURNING = "burn (/x/t.lua:3)_[N] 250\n"
IDEAL = (R + "coroutine.resume;ai (/x/t.lua:4);" + BURNING
         + R + "coroutine.resume;outer (/x/t.lua:6);coroutine.resume;inner (/x/t.lua:5);" + BURNING
         + R + "anonymous (/x/t.lua:10);" + BURNING
         + R + "oneshot (/x/t.lua:11);coroutine.resume;anonymous (/x/t.lua:11);" + BURNING)
TRUTH = {"ai": 0.25, "outer": 0.25, "wrap": 0.25, "oneshot": 0.25, "account": {}}

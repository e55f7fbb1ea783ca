# SPDX-License-Identifier: MIT
# Tail calls: the VM keeps no frame for the caller.
from caselib import MAIN, body, fn, lua_frames

MODES = [""]
LEAF, A, B = fn("leaf", 3), fn("a", 4), fn("b", 5)
LOOP = r"^(loop1|state) "


def check(c, p, t):
    c.near("b>leaf", p.pair(B, LEAF), 1 / 3, 0.05)
    c.near("main>leaf", p.pair(MAIN, LEAF), 2 / 3, 0.06)
    c.zero("a>leaf", p.pairs(A, LEAF))
    c.zero("loop1>leaf", p.pairs(LOOP, LEAF))
    c.zero("loop1>loop1", p.pairs(LOOP, LOOP))
    c.most("Lua frames", max((len(lua_frames(s)) for s, _ in p.stacks), default=99), 4)
    c.most("depth", max((len(body(s)) for s, _ in p.stacks), default=99), 16)


R = "_start;main;lua_pcall;main chunk (/x/t.lua);"
IDEAL = (R + "b (/x/t.lua:5);leaf (/x/t.lua:3)_[I] 320\n"
         + R + "leaf (/x/t.lua:3)_[I] 650\n" + R + "loop1 (/x/t.lua:7)_[I] 30\n")
TRUTH = {}

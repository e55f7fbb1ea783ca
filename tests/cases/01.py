# SPDX-License-Identifier: MIT
# Source text as chunk name: it must not leak into the format.
from caselib import FILE, MAIN, chunk, fn, lua_leaf, re, timed_truth  # noqa: F401

MODES = ["off", "on"]
F = r'^main chunk \(\[string "local n = \.\.\. _ local s = 0'
G = r'^main chunk \(\[string "local n=\.\.\._local s=0_for i='
H = r"^main chunk \(\(load\)\)$"


def truth(tools, folder):
    return timed_truth(tools, folder, 3)


def check(c, p, t):
    for name, rx in (("f", F), ("g", G), ("h", H)):
        c.near(name, p.lua_leaf(rx), t[name], 0.05)
        c.near(f"main>{name}", p.pair(MAIN, rx), p.lua_leaf(rx), 0.01)
    named = [f for f in p.frames() if any(re.search(x, f) for x in (F, G, H))]
    c.true("three chunks, three frames", len(named) == 3)
    c.most("longest", max(map(lambda f: len(f.encode()), named), default=999), 100)
    c.true("no text of the source beyond its first line",
           not any("a_b" in f or "return s" in f or "c 12" in f for f in p.frames()))


R = "_start;main;lua_pcall;main chunk (/x/t.lua);"
IDEAL = (R + 'main chunk ([string "local n = ... _ local s = 0..."])_[N] 500\n'
         + R + 'main chunk ([string "local n=..._local s=0_for i=1,n do s=s+i%5 e..."])_[N] 330\n'
         + R + "main chunk ((load))_[N] 170\n")
TRUTH = {"f": 0.5, "g": 0.33, "h": 0.17}
LEAVES = True

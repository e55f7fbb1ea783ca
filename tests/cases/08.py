# SPDX-License-Identifier: MIT
# Functions without a name, and one that a guess would misname.
from caselib import FILE, MAIN, fn, lua_leaf, re

MODES = ["off", "on"]
BURN, REAL = fn("burn", 2), fn("real", 6)
LIST = rf"^\S+ {FILE}:5\)$"
IN_PLACE = rf"^anonymous {FILE}:11\)$"


def check(c, p, t):
    c.near("closures of line 5", p.lua_leaf(LIST), 2.5 / 6.5, 0.06)
    c.near("real>burn", p.pair(REAL, BURN), 2 / 6.5, 0.06)
    c.near("anonymous>burn", p.pair(IN_PLACE, BURN), 2 / 6.5, 0.06)
    c.near("main>closure", p.pair(MAIN, LIST), p.lua_leaf(LIST), 0.01)
    frames = p.frames()
    c.true("500 closures are one frame",
           len([f for f in frames if re.search(rf"{FILE}:5\)$", f)]) == 1)
    c.true("`never` never", not any(re.search(rf"{FILE}:3\)$|never", f) for f in frames))
    c.true("no address in a Lua frame",
           not any(re.search(r"t\.lua", f) and "0x" in f for f in frames))


def more(c, tools, folder):
    """Two runs give the same names."""
    from caselib import Run, is_lua
    names = []
    for _ in range(2):
        r = Run(tools, folder, {}, 12)
        try:
            r.start()
            p = r.attach(duration=3)
            names.append({f for f in p.hottest() if p.share(re.escape(f)) > 0.01
                          and is_lua(f)})
        finally:
            r.end()
    c.true(f"{len(names[0])} names, the same in two runs",
           names[0] and names[0] == names[1])


R = "_start;main;lua_pcall;main chunk (/x/t.lua);"
IDEAL = (R + "anonymous (/x/t.lua:5)_[N] 385\n"
         + R + "real (/x/t.lua:6);burn (/x/t.lua:2)_[N] 308\n"
         + R + "anonymous (/x/t.lua:11);burn (/x/t.lua:2)_[N] 307\n")
TRUTH = {}

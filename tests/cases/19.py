# SPDX-License-Identifier: MIT
# Leaves in the VM's assembly helpers, which have no frame of their own.
from caselib import FILE, MAIN, Run, fn, has_pair, lua_frames, re, share_of  # noqa: F401

MODES = [""]
SPIN, A, B = fn("spin", 5), fn("phase_a", 14), fn("phase_b", 15)


def general(c, p, r):
    from caselib import general as usual
    usual(c, p, r, rooted=0.99)


def whole(s):
    lua = lua_frames(s)
    return (len(lua) == 3 and re.search(MAIN, lua[0])
            and re.search(f"{A}|{B}", lua[1]) and re.search(SPIN, lua[2]))


def check(c, p, t):
    c.least("main > phase > spin", p.part(lambda s: bool(whole(s))), 0.99)
    c.near("phase_b", p.share(B), 2 / 3, 0.03)
    c.near("phase_a", p.share(A), 1 / 3, 0.03)


def more(c, tools, folder):
    r = Run(tools, folder, {}, 12)
    try:
        r.start()
        p = r.attach("--lines", duration=3)
    finally:
        r.end()
    spin = p.only(lambda s: any(re.search(rf"^spin {FILE}:", f) for f in s))
    c.least("spin", spin.total / max(1, p.total), 0.99)
    for line in (8, 9):
        c.least(f"line {line}", spin.share(rf"^spin {FILE}:{line}\)$"), 0.1)
    c.least("lines 7 to 10", spin.share(rf"^spin {FILE}:([789]|10)\)$"), 0.99)


R = "_start;main;lua_pcall;main chunk (/x/t.lua);"
IDEAL = (R + "phase_b (/x/t.lua:15);spin (/x/t.lua:5)_[I] 667\n"
         + R + "phase_a (/x/t.lua:14);spin (/x/t.lua:5)_[I] 333\n")
TRUTH = {}

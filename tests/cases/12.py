# SPDX-License-Identifier: MIT
# Callbacks from C and from metamethods, with current lines.
from caselib import FILE, chunk, lua_frames, re

MODES = ["off", "on"]
ATTACH = ["--lines"]
# A tail call leaves no frame, so __index (`return burn(...)`) is not there.
PARENT = [
    ("sub_cb:7", rf"^sub_cb {FILE}:7\)$", r"^string\.gsub$", 16),
    ("cmp:13", rf"^cmp {FILE}:13\)$", r"^table\.sort$", 17),
    ("metamethods", rf"^\S*(__lt|__concat|anonymous) {FILE}:12\)$", None, (19, 20)),
    ("xpcall", rf"^anonymous {FILE}:21\)$", r"^xpcall$", 21),
    ("pcall", r"^pcall$", None, 21),
]
BURN = rf"^burn {FILE}:2\)$"


def main_at(lines):
    lines = lines if isinstance(lines, tuple) else (lines,)
    return "|".join(chunk(line=n) for n in lines)


def check(c, p, t):
    burning = 0
    for what, rx, caller, lines in PARENT:
        n = p.pairs(rx, BURN)
        burning += n
        c.least(what, n / max(p.total, 1), 0.02)
        chain = p.only(lambda s: any(re.search(rx, a) and re.search(BURN, b)
                                     for a, b in zip(s, s[1:])))
        if caller:
            c.least(f"{what} called by {caller}", chain.under(caller, rx), 0.98)
        c.least(f"{what} on line {lines}", chain.share(main_at(lines)), 0.95)
    burning += p.pairs(main_at(18), BURN)
    c.least("main:18>burn (tail call of __index)", p.pair(main_at(18), BURN), 0.02)
    c.least("all callers of burn", burning / max(1, p.count(
        lambda s: any(re.search(BURN, f) for f in s))), 0.97)
    c.zero("a Lua frame twice in a row", p.count(
        lambda s: any(a == b for a, b in zip(lua_frames(s), lua_frames(s)[1:]))))


R = "_start;main;lua_pcall;main chunk (/x/t.lua:%d);%sburn (/x/t.lua:2)_[I] %d\n"
IDEAL = (R % (16, "string.gsub;sub_cb (/x/t.lua:7);", 40)
         + R % (17, "table.sort;cmp (/x/t.lua:13);", 20) + R % (18, "", 10)
         + R % (19, "mt.__lt (/x/t.lua:12);", 10) + R % (20, "mt.__concat (/x/t.lua:12);", 10)
         + R % (21, "pcall;", 10) + R % (21, "xpcall;anonymous (/x/t.lua:21);", 10))
TRUTH = {}

# SPDX-License-Identifier: MIT
# Bytecode without debug information.
from caselib import MAIN, lua_frames, lua_leaf, re

MODES = ["off", "on"]
GAME = r"^\S+ \((?:.*/)?game\.luac:\?\)$"
PACKED = r"^\S+ \(packed:\?\)$"
ANY = r":\?\)$"


def kind(frame):
    if re.search(GAME, frame):
        return "file"
    if re.search(PACKED, frame):
        return "packed"
    return "bytecode" if re.search(ANY, frame) else None


# `cold` makes a tail call: no frame of it is left below `hot`.
def well_called(s):
    lua = lua_frames(s)
    return bool(re.search(MAIN, lua[0])) and len(lua) == 2


def check(c, p, t):
    def share(which):
        return p.part(lambda s: lua_leaf(s) and kind(lua_leaf(s)) == which)
    for which in ("file", "bytecode", "packed"):
        c.near(which, share(which), 1 / 3, 0.05)
    stripped = p.only(lambda s: lua_leaf(s) and kind(lua_leaf(s)))
    c.least("main > hot, main > packed", stripped.part(well_called), 0.99)
    c.true("no invented lines",
           not any(re.search(r"(game\.luac|packed):\d", f) for f in p.frames()))


R = "_start;main;lua_pcall;main chunk (/x/t.lua);"
IDEAL = (R + "anonymous#2 (/x/game.luac:?)_[N] 33\n"
         + R + "anonymous#2 ([bytecode]:?)_[N] 33\n"
         + R + "anonymous#3 (packed:?)_[N] 34\n")
TRUTH = {}

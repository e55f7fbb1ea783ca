# SPDX-License-Identifier: MIT
# Tiny functions at a furious rate: only five pairs exist.
from caselib import MAIN, Run, fn, lua_frames, re

MODES = ["off", "on"]
NAMES = {"succ": 5, "baz": 6, "bob": 7, "bar": 8, "foo": 9}
RX = {n: fn(n, line) for n, line in NAMES.items()}
PAIRS = {("main", "foo"), ("foo", "bar"), ("bar", "baz"), ("bar", "bob"), ("baz", "succ")}


def short(frame):
    for n, rx in RX.items():
        if re.search(rx, frame):
            return n
    return "main" if re.search(MAIN, frame) else None


def impossible(s):
    names = [short(f) for f in lua_frames(s)]
    return any(a and b and (a, b) not in PAIRS for a, b in zip(names, names[1:]))


def check(c, p, t):
    c.zero("impossible pairs", p.count(impossible))
    c.zero("another root than main", p.count(
        lambda s: lua_frames(s) and not short(lua_frames(s)[0]) == "main"))
    if t["mode"] == "on":
        # All of it is one trace of five instructions without a snapshot in the
        # inlined functions: what is inlined there can't be told in this version.
        c.least("main", p.share(MAIN), 0.99)
        return
    for a, b in sorted(PAIRS):
        rx = MAIN if a == "main" else RX[a]
        c.least(f"{a}>{b}", p.pair(rx, RX[b]), 0.01)
    c.least("bar in foo", p.share(RX["bar"]), 0.5)


def more(c, tools, folder):
    """Parents stand at the lines of their calls."""
    for mode, least in (("off", 0.999), ("on", 0.9)):
        r = Run(tools, folder, {"CASE_JIT": mode}, 12)
        try:
            r.start()
            p = r.attach("--lines", duration=3)
        finally:
            r.end()
        for parent, child, line in (("foo", "bar", 9), ("bar", "baz", 8),
                                    ("bar", "bob", 8), ("baz", "succ", 6)):
            def called(at):
                return p.pairs(rf"^{parent} \(.*t\.lua:{at}\)$",
                               rf"^{child} \(.*t\.lua:\d+\)$")
            if mode == "off" or called(r"\d+"):
                c.least(f"jit={mode} {parent}:{line}>{child}",
                        called(line) / max(1, called(r"\d+")), least)


R = "_start;main;lua_pcall;main chunk (/x/t.lua);foo (/x/t.lua:9);"
BAR = R + "bar (/x/t.lua:8);"
IDEAL = (R + "_[I] 10\n" + BAR + "_[I] 20\n" + BAR + "bob (/x/t.lua:7)_[I] 20\n"
         + BAR + "baz (/x/t.lua:6)_[I] 20\n"
         + BAR + "baz (/x/t.lua:6);succ (/x/t.lua:5)_[I] 30\n")
TRUTH = {"mode": "off"}
LEAVES = True

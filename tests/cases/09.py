# SPDX-License-Identifier: MIT
# 15,000 live frames under the leaf.
from caselib import Checks, MAIN, Profile, body, fn, re, Run  # noqa: F401

MODES = ["off", "on"]
BURN, DOWN, FLAT = fn("burn", 4), fn("down", 5), fn("flat", 6)
DEPTH = 256


def counted(s):
    """Native and Lua frames; marks apart."""
    return len([f for f in body(s) if not re.match(r"^\[(truncated|partial)\]$", f)])


def deep(s):
    return any(re.search(DOWN, f) for f in s)


def general(c, p, r):
    a = r.account()
    c.most("lost", a["lost"] / max(a["sent"], 1), 0.02)
    flat = p.only(lambda s: not deep(s))
    c.least("rooted or marked", p.part(
        lambda s: s[0] == "_start" or s[0] == "[truncated]"), 0.98)
    c.least("flat rooted", flat.root("^_start$"), 0.98)


def check(c, p, t):
    c.near("down", p.share(DOWN), 0.5, 0.05)
    c.near("flat", p.share(FLAT), 0.5, 0.05)
    cut = p.only(deep)
    c.most("deepest", max((counted(s) for s, _ in p.stacks), default=999), DEPTH)
    c.least("a cut is marked at its root end", cut.part(
        lambda s: body(s)[0] == "[truncated]" and re.search(DOWN, body(s)[1])), 0.99)
    c.least("the leaf side is kept", cut.pair(DOWN, BURN), 0.97)
    c.least("main>flat>burn", p.only(lambda s: not deep(s)).pair(FLAT, BURN), 0.97)
    c.near("main>flat", p.pair(MAIN, FLAT), p.share(FLAT), 0.01)


def more(c, tools, folder):
    """Around the limit: whole while it fits, cut when it does not."""
    for depth in (150, 199, 200, 201):
        r = Run(tools, folder, {"CASE_JIT": "off", "CASE_DEPTH": str(depth)}, 10)
        try:
            r.start()
            p = r.attach("-D", "512", duration=1)
            whole = p.only(deep)
            frames = max((len([f for f in s if re.search(DOWN, f)])
                          for s, _ in whole.stacks), default=0)
            c.true(f"depth {depth}: {frames} frames of down", frames == depth + 1)
            c.least("rooted", whole.root("^_start$"), 0.98)
            c.zero("cut", whole.count(lambda s: "[truncated]" in s))
        finally:
            r.end()


IDEAL = ("[truncated];" + "down (/x/t.lua:5);" * 255 + "burn (/x/t.lua:4)_[N] 500\n"
         + "_start;main;main chunk (/x/t.lua);flat (/x/t.lua:6);burn (/x/t.lua:4)_[N] 500\n")
TRUTH = {}

# SPDX-License-Identifier: MIT
# Names far over any fixed buffer, and bytes that are no UTF-8.
from caselib import MAIN, account, general as usual, lint_file, lua_leaf, re  # noqa: F401

MODES = ["off", "on"]
SHARE = 1 / 9


def general(c, p, r):
    usual(c, p, r)
    c.true("no line over 8192 bytes", not lint_file(r.last, 8192))


def check(c, p, t):
    hot = {}
    for s, n in p.stacks:
        leaf = lua_leaf(s)
        if leaf and len(s) > 1 and re.search(MAIN, before(s, leaf) or ""):
            hot[leaf] = hot.get(leaf, 0) + n / p.total
    hot = {f: x for f, x in hot.items() if x > 0.02}
    # Two names that differ only beyond the cut may be one frame, and so may
    # the two empty ones.
    chunks = 0
    for f, x in sorted(hot.items()):
        count = max(1, min(2, round(x / SHARE)))
        chunks += count
        c.near(f[:24], x, count * SHARE, 0.05)
    c.true(f"nine chunks in {len(hot)} frames", chunks == 9 and len(hot) >= 7)
    c.true("no empty name", not any(re.search(r"\(\)|^\s*$", f) for f in hot))
    c.true("the tail of the long path is kept", any("d/d/deep.lua" in f for f in hot))
    c.true("invalid bytes are replaced", any(re.search(r"bad.+utf8", f) for f in hot))


def before(stack, frame):
    lua = [f for f in stack if f.startswith("main chunk (")]
    return lua[-2] if len(lua) > 1 and lua[-1] == frame else None


def more(c, tools, folder):
    from caselib import Run
    r = Run(tools, folder, {}, 8)
    try:
        r.start()
        r.attach(rate=200, duration=3)
        c.most("own CPU at 200 Hz, %", r.account()["cpu"], 10)
    finally:
        r.end()


R = "_start;main;lua_pcall;main chunk (/x/t.lua);main chunk ("
IDEAL = "".join(R + x + ")_[N] 11\n" for x in (
    "...d/d/deep.lua", "中中...", "x中中...", "xy🎮...", "bad\ufffd\ufffdutf8", "AAAA...",
    '[string "local n=... local s=0..."]')) + R + "?)_[N] 22\n"
TRUTH = {}

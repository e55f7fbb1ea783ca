# SPDX-License-Identifier: MIT
# Separators of the format in chunk, zone and thread names.
from caselib import chunk, general as usual, lua_leaf, re

MODES = ["off", "on"]
ATTACH = ["--threads"]
MAIN = chunk()


def general(c, p, r):
    usual(c, p, r, rooted=0)


def check(c, p, t):
    hot, depths = {}, {}
    for s, n in p.stacks:
        leaf = lua_leaf(s)
        if leaf and re.search(r"^main chunk \(", leaf) and not re.search(MAIN, leaf):
            hot[leaf] = hot.get(leaf, 0) + n / p.total
            # the state, and frames of the VM's own helpers, stand above it
            d = s.index(leaf)
            depths[d] = depths.get(d, 0) + n / p.total
    hot = {f: x for f, x in hot.items() if x > 0.02}
    c.true(f"nine chunks stay nine frames ({len(hot)})", len(hot) == 9)
    for f, x in sorted(hot.items()):
        c.near(f, x, 1 / 9, 0.05)
    c.least("one depth for all", max(depths.values(), default=0), 0.97)
    c.least("a zone is one frame", p.share(r"^z_\d/x 3_$"), 0.9)
    # The kernel's list of names ends at the line break inside this one.
    c.least("the thread is one frame", p.root(r"^ma_in 7(.<&\")?/\d+$"), 0.99)
    c.least("called by the script", p.pair(MAIN, r"^main chunk \("), 0.95)


R = 'ma_in 7_<&"/7;z_%d/x 3_;_start;main;lua_pcall;main chunk (/x/t.lua);main chunk (%s)_[N] 11\n'
IDEAL = "".join(R % (i, x) for i, x in enumerate((
    "a_b", "ends in count 12", "path with space/x y.lua", "tab_here",
    "<tag> & \"quote\" 'q'", "back\\slash", " lead", "trail ", "a\\_b_c"), 1))
TRUTH = {}

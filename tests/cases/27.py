# SPDX-License-Identifier: MIT
# No JIT at all.
from caselib import MAIN, Run, fn

MODES = [""]
WAITS = True
A, B = fn("a", 2), fn("b", 3)


def check(c, p, t):
    c.near("a", p.lua_leaf(A), t["a"], 0.02)
    c.near("b", p.lua_leaf(B), t["b"], 0.02)
    c.near("main>a", p.pair(MAIN, A), p.share(A), 0.001)
    c.zero("compiled", p.count(lambda s: s[-1] == "_[N]"))


def more(c, tools, folder):
    """Nothing is compiled, so nothing is aborted, and that is said."""
    r = Run(tools, folder, {}, 12)
    try:
        r.start()
        table = r.trace("-d", "1", "--benign")
        c.true("the table is empty", table and not table.rows)
        c.true("says that the JIT is off", "JIT compiler is off" in r.stderr)
        c.true("status 0", r.status == 0)
    finally:
        r.end()


R = "_start;main;lua_pcall;main chunk (/x/t.lua);"
IDEAL = R + "a (/x/t.lua:2)_[I] 750\n" + R + "b (/x/t.lua:3)_[I] 250\n"
TRUTH = {"a": 0.75, "b": 0.25}
LEAVES = True

# SPDX-License-Identifier: MIT
# A stripped interpreter: code between its exported symbols.
from caselib import MAIN, fn, re, timed_truth

MODES = [""]
CONCAT, TABLES, MODULO = fn("concat", 3), fn("tables", 4), fn("modulo", 5)


def truth(tools, folder):
    return timed_truth(tools, folder, 3, ["-joff"])


def check(c, p, t):
    for name, rx in (("concat", CONCAT), ("tables", TABLES), ("modulo", MODULO)):
        c.near(name, p.share(rx), t[name], 0.05)
        c.near(f"main>{name}", p.pair(MAIN, rx), p.share(rx), 0.001)
    c.zero("luaL_openlibs", p.count(lambda s: "luaL_openlibs" in s))
    c.zero("_start within a stack", p.count(lambda s: "_start" in s[1:]))
    c.least("native frames without a symbol are kept", p.part(
        lambda s: any(re.match(r"^luajit\+0x[0-9a-f]+$", f) for f in s)), 0.5)


R = "_start;__libc_start_main;luajit+0x4f00;lua_cpcall;main chunk (/x/t.lua);"
IDEAL = (R + "concat (/x/t.lua:3);luajit+0x100_[I] 400\n" + R + "tables (/x/t.lua:4)_[I] 350\n"
         + R + "modulo (/x/t.lua:5)_[I] 250\n")
TRUTH = {"concat": 0.4, "tables": 0.35, "modulo": 0.25}

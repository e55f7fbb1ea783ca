# SPDX-License-Identifier: MIT
# A sandbox: no jit, ffi, debug or package library to run anything in.
import subprocess

from caselib import MAIN, Run, fn, re

MODES = [""]
AGENT_MORE = True  # zones and status are the agent's
WAITS = True
HOT, UPDATE, DRAW = fn("hot", 2), fn("mod_update", 3), fn("mod_draw", 4)


def check(c, p, t):
    c.near("mod_update", p.share(UPDATE), 2 / 3, 0.03)
    c.near("mod_draw", p.share(DRAW), 1 / 3, 0.03)
    c.least("main > mod_update > hot", p.pair(UPDATE, HOT) / max(
        1e-9, p.share(UPDATE)), 0.95)
    c.least("main > mod_draw > hot", p.pair(DRAW, HOT) / max(
        1e-9, p.share(DRAW)), 0.95)
    c.least("below main", p.under(MAIN, HOT), 0.97)
    c.true("no new globals", t.get("new_globals", "") == "")


def more(c, tools, folder):
    """What cannot be had says so; the sandbox stays closed."""
    r = Run(tools, folder, {}, 12)
    try:
        r.start()
        out = subprocess.run([tools.attach, "status", str(r.pid)], text=True,
                             stdout=subprocess.PIPE, timeout=20).stdout
        c.true("zones: not available in this VM", re.search(
            r"^vm\.1\.zones: not available in this VM", out, re.M))
        c.true("status: the JIT is off", "vm.1.jit: off" in out)
        table = r.trace("-d", "1")
        c.true("trace: the JIT is off", "JIT compiler is off" in r.stderr)
        c.true("no aborts", table and not table.rows and r.status == 0)
        t = r.truth()
        c.true("no new globals", t.get("new_globals", "") == "")
        c.true("the program has its end", "truth new_globals" in r.target_out())
    finally:
        r.end()


R = "_start;main;lua_pcall;main chunk (/x/t.lua);"
IDEAL = (R + "mod_update (/x/t.lua:3);hot (/x/t.lua:2)_[I] 667\n"
         + R + "mod_draw (/x/t.lua:4);hot (/x/t.lua:2)_[I] 333\n")
TRUTH = {"new_globals": ""}

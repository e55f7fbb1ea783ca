# SPDX-License-Identifier: MIT
# The program has a debug hook of its own.
import os
import subprocess

from caselib import re

MODES = ["off", "on"]
ATTACH = ["--lines"]
WAITS = True
FILE = r"\((?:[^()]*/)?t\.lua"
HOOK, WORK = rf"^hook {FILE}:3\)$", rf"^work {FILE}:(\d+)\)$"
MAIN_ANY = rf"^main chunk {FILE}:\d+\)$"


def truth(tools, folder):
    """Lines a round, without anybody looking."""
    env = dict(os.environ, CASE_SECS="1",
               LUA_PATH=os.path.join(folder, "..", "lib", "?.lua") + ";;")
    r = subprocess.run([tools.luajit, os.path.join(folder, "t.lua")], env=env,
                       stdout=subprocess.PIPE, text=True, timeout=60)
    m = re.search(r"truth lines_per_round_first (\d+)", r.stdout)
    return {"plain_lines": m.group(1)}


def check(c, p, t):
    c.true("the hook is the program's", t["hook_same"] == "true")
    if "plain_lines" in t:
        c.true("lines a round as unprofiled",
               t["lines_per_round_first"] == t["plain_lines"])
    lines = [int(m.group(1)) for s, n in p.stacks for f in s
             for m in [re.search(WORK, f)] if m for _ in range(n)]
    c.least("work on lines 6 and 7", sum(x in (6, 7) for x in lines)
            / max(1, len(lines)), 0.99)
    hooked = p.only(lambda s: any(re.search(HOOK, f) for f in s))
    c.least("samples in the hook", hooked.total / max(1, p.total), 0.05)
    c.least("hook above work", hooked.under(WORK, HOOK), 0.98)
    c.least("work", p.share(WORK), 0.95)
    c.least("main > work", p.under(MAIN_ANY, WORK), 0.95)


R = "_start;main;lua_pcall;main chunk (/x/t.lua:14);work (/x/t.lua:7)"
IDEAL = (R + "_[I] 600\n" + R.replace("7)", "6)") + "_[I] 100\n"
         + R + ";hook (/x/t.lua:3)_[I] 300\n")
TRUTH = {"hook_same": "true"}

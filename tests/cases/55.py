# SPDX-License-Identifier: MIT
# Hand-written code between main and the VM: without unwind information, or with
# such that names itself as its caller for ever.
import caselib
from caselib import busy

MODES = ["off", "on"]
ENV = {"CASE_KIND": "nocfi"}

def general(c, p, r):
    caselib.general(c, p, r, rooted=0)


def check(c, p, t):
    busy(c, p)
    c.zero("three times the same frame", p.count(
        lambda s: any(a == b == d for a, b, d in zip(s, s[1:], s[2:]))))
    c.least("one mark, at the root", p.part(
        lambda s: s[0] == "[partial]" and s.count("[partial]") == 1), 0.99)
    c.least("the code that can't be followed", p.part(
        lambda s: s[1].startswith("call_")), 0.99)
    if t.get("account"):
        c.most("own CPU %", t["account"].get("cpu", 100), 10)


def more(c, tools, folder):
    r = caselib.Run(tools, folder, {"CASE_KIND": "loop", "CASE_JIT": "on"}, 12)
    try:
        r.start()
        p = r.attach(duration=3, rate=200)
        general(c, p, r)
        check(c, p, {"account": r.account()})
    finally:
        r.end()


R = "[partial];call_nocfi;run_the_script;lua_pcall;main chunk (/x/busy.lua);"
IDEAL = (R + "update (/x/busy.lua:4);hot (/x/busy.lua:3)_[N] 667\n"
         + R + "draw (/x/busy.lua:5);hot (/x/busy.lua:3)_[N] 333\n")
TRUTH = {}

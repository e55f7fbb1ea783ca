# SPDX-License-Identifier: MIT
# Zones that an error or an early return leaves behind: the path of a sample is
# jit.zone's own stack at that moment, and never grows.
from caselib import MAIN, fn, share_of

MODES = ["", "off"]
BURN, FRAME, OK, ERR, EARLY = (fn(*f) for f in (
    ("burn", 3), ("frame", 7), ("system_ok", 4), ("system_err", 5),
    ("system_early", 6)))
PATHS = {"frame;ok": 1 / 6, "frame;leaky": 2 / 6, "frame;leaky;early": 2 / 6,
         "frame": 1 / 6}


def zones(s):
    return ";".join(s[:s.index("_start")]) if "_start" in s else "[no root]"


def general(c, p, r):
    from caselib import general as usual
    usual(c, p, r, rooted=0)
    c.least("rooted below the zones", p.part(lambda s: "_start" in s), 0.98)


def check(c, p, t):
    for path, share in PATHS.items():
        c.near(path, p.part(lambda s: zones(s) == path), share, 0.03)
    c.zero("deeper than 3", p.count(
        lambda s: "_start" in s and s.index("_start") > 3))
    c.near("main > frame", p.pair(MAIN, FRAME), 1, 0.01)
    for name, f, path in (("ok", OK, "frame;ok"), ("leaky", ERR, "frame;leaky"),
                          ("early", EARLY, "frame;leaky;early")):
        own = p.only(lambda s: zones(s) == path)
        want = 1.0 if name == "ok" else 0.5
        c.near(f"{name}'s function in its zone", share_of(own, f, BURN), want, 0.04)


R = "_start;main;lua_pcall;main chunk (/x/t.lua);frame (/x/t.lua:7);"
B = "burn (/x/t.lua:3)_[N] 100\n"
IDEAL = (f"frame;ok;{R}system_ok (/x/t.lua:4);{B}"
         f"frame;leaky;{R}pcall;system_err (/x/t.lua:5);{B}frame;leaky;{R}{B}"
         f"frame;leaky;early;{R}system_early (/x/t.lua:6);{B}"
         f"frame;leaky;early;{R}{B}frame;{R}{B}")
TRUTH = {}

# SPDX-License-Identifier: MIT
# Machine code is thrown away, and its addresses and trace numbers are used by
# other code, many times a second.
from caselib import MAIN, fn, has_pair, re

MODES = ["off", "on"]
SECS, LIFE = 8, 11
WAITS = True
A, B, RUN = fn("driveA", 8), fn("driveB", 9), fn("runset", 7)
PHASE = {k: rf"^main chunk \(phase{k}_\d+(:\d+)?\)$" for k in "AB"}


def check(c, p, t):
    for drive, own, other in ((A, "A", "B"), (B, "B", "A")):
        c.zero(f"phase{other} under {drive}",
               p.count(lambda s: any(re.search(drive, f) for f in s)
                       and any(re.search(PHASE[other], f) for f in s)))
        c.near(f"all of phase{own} under it", p.under(drive, PHASE[own]),
               p.share(PHASE[own]), 0.01)
        c.near(f"phase{own}", p.share(PHASE[own]), 0.5, 0.08)
        counts = [p.count(lambda s: any(f"(phase{own}_{i})" in f for f in s))
                  for i in range(1, 21)]
        mean = sum(counts) / 20
        c.least(f"phase{own}: the fewest of 20, of their mean",
                min(counts) / max(mean, 1), 0.4)
        c.most(f"phase{own}: the most of 20, of their mean",
               max(counts) / max(mean, 1), 2)
        c.near(f"main>drive{own}>runset", p.part(
            lambda s: has_pair(s, MAIN, drive) and has_pair(s, drive, RUN)),
            p.share(PHASE[own]), 0.02)
    c.zero("frames without a place", p.count(lambda s: any("?" in f for f in s)))
    c.most("incomplete", p.part(lambda s: "[partial]" in s), 0.01)
    c.least("flushes", int(t.get("flushes", 0)), 10)


R = "_start;main;lua_pcall;main chunk (/x/t.lua);"
IDEAL = "".join(R + f"drive{k} (/x/t.lua:{line});runset (/x/t.lua:7);"
                f"main chunk (phase{k}_{i})_[N] {250 + i}\n"
                for k, line in (("A", 8), ("B", 9)) for i in range(1, 21))
TRUTH = {"flushes": "600"}

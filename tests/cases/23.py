# SPDX-License-Identifier: MIT
# The program keeps its own book of aborts; the table must agree.
import re
import time

from caselib import Run, plain

AGENT = True  # what it counts is heard by the agent alone


def trace(tools, folder):
    r = Run(tools, folder, {}, 40)
    try:
        r.start()
        table = r.trace("--benign",
                        until=lambda: re.search("^done$", r.target_out(), re.M))
        out = r.target_out()
        truth = {"status": r.status, "alive": r.alive(), "book": {
            (reason, where.lstrip("@")): int(n) for n, reason, where in re.findall(
                r"^truth abort (\d+) \| (.*) \| (.*)$", out, re.M)}}
        time.sleep(0.1)
        return table, truth
    finally:
        r.end()


def check_table(c, table, t):
    have = {(plain(r["reason"]), plain(r["location"])): int(r["count"])
            for r in table.rows}
    c.true("RFC 4180, in order", not table.lint())
    c.least("rows in the book", len(t["book"]), 4)
    c.zero("rows missing", len(set(t["book"]) - set(have)))
    c.zero("rows invented", len(set(have) - set(t["book"])))
    c.zero("other counts", sum(have.get(k) != n for k, n in t["book"].items()))
    c.true("outside any zone", all(r["zone"] == "" for r in table.rows))
    gave_up = [r for r in table.rows if "FNEW" in r["reason"]]
    c.true("what LuaJIT gave up is classed so",
           gave_up and all(r["severity"] == "blacklist" for r in gave_up))
    c.true("status 0, target alive", t["status"] == 0 and t["alive"])


IDEAL_TABLE = ("severity,count,reason,location,zone\r\n"
               "blacklist,12,NYI: bytecode FNEW,/x/t.lua:19,\r\n"
               "warn,9,loop unroll limit reached,/x/t.lua:23,\r\n"
               "info,40,leaving loop in root trace,/x/t.lua:17,\r\n"
               "info,2,inner loop in root trace,/x/t.lua:23,\r\n")
TRUTH = {"status": 0, "alive": True, "book": {
    ("NYI: bytecode FNEW", "/x/t.lua:19"): 12,
    ("loop unroll limit reached", "/x/t.lua:23"): 9,
    ("leaving loop in root trace", "/x/t.lua:17"): 40,
    ("inner loop in root trace", "/x/t.lua:23"): 2}}

# SPDX-License-Identifier: MIT
# Chunk and zone names full of what CSV and spreadsheets care about.
import re

from caselib import Run, plain

# What follows the mark `=` of a chunk name; a long one is cut.
NAMES = ["a,b", 'say "hi"', "two\nlines", "cr\rhere", "semi;colon", "w" * 3000,
         "=SUM(A1)", " lead and trail "]

AGENT = True  # what it counts is heard by the agent alone


def trace(tools, folder):
    r = Run(tools, folder, {}, 20)
    try:
        r.start()
        table = r.trace("-d", "4", "--benign")
        return table, {"status": r.status, "alive": r.alive()}
    finally:
        r.end()


def number_of(location):
    """Which of NAMES, 1 to 8, at line 1; 0: none."""
    name, _, line = location.rpartition(":")
    for i, want in enumerate(NAMES, 1):
        cut = re.fullmatch(r"(w{100,})\.\.\.", name) and len(want) > 256
        if line == "1" and (name == want or cut):
            return i
    return 0


def check_table(c, table, t):
    c.true("RFC 4180, no formulas", not table.lint())
    own = [r for r in table.rows if "t.lua" not in r["location"]]
    numbers = [number_of(plain(r["location"])) for r in own]
    c.true("eight locations", sorted(set(numbers)) == list(range(1, 9)))
    c.zero("other locations", numbers.count(0))
    c.zero("zones that are another's", sum(
        plain(r["zone"]) != f'z,"{n}"\n' for r, n in zip(own, numbers)))
    c.true("the reason, once at each", sorted(
        n for r, n in zip(own, numbers)
        if r["reason"] == "NYI: bytecode FNEW") == list(range(1, 9)))
    c.true("status 0, target alive", t["status"] == 0 and t["alive"])


IDEAL_TABLE = "severity,count,reason,location,zone\r\n" + "".join(
    'warn,7,NYI: bytecode FNEW,"%s:1","z,""%d""\n"\r\n' % (
        name.replace('"', '""'), i) for i, name in sorted(
            enumerate(NAMES[:5] + ["w" * 200 + "...", "'=SUM(A1)", NAMES[7]], 1),
            key=lambda x: x[1].lstrip("'")))
TRUTH = {"status": 0, "alive": True}

# SPDX-License-Identifier: MIT
"""Shares of lines and functions among those that a program marks, in a profile
with --lines.

lines.py PROGRAM PROFILE: a row `line NUMBER FUNCTION SHARE WANT SAMPLES` for
each marked line, `function NAME SHARE WANT SAMPLES` for each function.  A line
is marked by `--@ COST FUNCTION` at its end; WANT is its part of all costs.
"""
import re
import sys

import fold

FRAME = re.compile(r"^(.*) \((.*):(\d+)\)( \[\w+\])?$")


def marks(path):
    with open(path) as f:
        for number, text in enumerate(f, 1):
            m = re.search(r"--@ (\d+) (\S+)$", text)
            if m:
                assert text.count(" / ") == int(m[1]), (path, number)
                yield number, int(m[1]), m[2]


def leaf(stack):
    """Name, line and mark of the innermost Lua frame."""
    for frame in reversed(stack):
        m = FRAME.match(frame)
        if m:
            return m[1], int(m[3]), m[4]
    return None


def row(kind, what, count, want, total):
    print(kind, what, f"{count / total if total else 0:.4f} {want:.4f} {total}")


def main(program, profile):
    marked = list(marks(program))
    cost = sum(c for _, c, _ in marked)
    leaves = [(leaf(s), n) for s, n in fold.Profile.read(profile).stacks]
    leaves = [(x, n) for x, n in leaves if x]
    lines = {number: sum(n for x, n in leaves if x[1] == number and not x[2])
             for number, _, _ in marked}
    for number, c, name in marked:
        row("line", f"{number} {name}", lines[number], c / cost,
            sum(lines.values()))
    names = {}
    for _, c, name in marked:
        names[name] = names.get(name, 0) + c
    counts = {f: sum(n for x, n in leaves if x[0] == f) for f in names}
    for name, c in names.items():
        row("function", name, counts[name], c / cost, sum(counts.values()))


main(*sys.argv[1:])

# SPDX-License-Identifier: MIT
"""Zones of a profile.  zones.py FILE paths        share and path, a line each
                       zones.py FILE share PATH    of the samples
                       zones.py FILE strays        samples of a function work_X
                                                   that are not in a zone X
                       zones.py FILE outside PATH  samples whose path does not
                                                   start so
A path is the frames before the root, joined by "/"; with --threads the
thread's frame before them is left out, and -t NAME takes one thread only.
"""
import re
import sys

from fold import Profile

ROOTS = ("_start", "[thread start]", "[partial]")


def path(stack):
    at = next((i for i, f in enumerate(stack) if f in ROOTS), 0)
    return "/".join(stack[:at])


def strays(p):
    n = 0
    for s, count in p.stacks:
        for f in s:
            m = re.match(r"work_(\w+)(?: \(|_\[|$)", f)
            if m and m.group(1) not in path(s).split("/"):
                n += count
    return n


def main(argv):
    thread = None
    if argv[0] == "-t":
        thread, argv = argv[1], argv[2:]
    p = Profile.read(argv[0])
    if thread:
        p = Profile.of([(s[1:], n) for s, n in p.stacks
                        if s[0].startswith(thread + "/")])
    what, rest = argv[1], argv[2:]
    if what == "paths":
        for x in sorted({path(s) for s, _ in p.stacks}):
            print(f"{p.part(lambda s: path(s) == x):.4f} {x}")
    elif what == "share":
        print(f"{p.part(lambda s: path(s) == rest[0]):.4f}")
    elif what == "strays":
        print(strays(p))
    elif what == "outside":
        print(p.count(lambda s: not path(s).startswith(rest[0])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])

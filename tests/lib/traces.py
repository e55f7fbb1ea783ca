# SPDX-License-Identifier: MIT
"""traces.py FILE [plain]: lines `trace N ...`, as tests/targets/compiled.lua has
them, of what `tecs-attach status --verbose` said; plain: without what only
listeners tell; start: without the functions that only a record log tells.
traces.py FILE log: numbers of traces and whether they have a record log."""
import re
import sys

LINE = re.compile(
    r"vm\.1\.trace\.(\d+): (.*?); link ([a-z-]+)(?: (\d+))?; "
    r"code 0x([0-9a-f]+), (\d+) bytes; log (yes|no); start (.*); inlined (.*)")
PLACE = re.compile(r"(.*?) \(.*:(\d+|\?)\)")


def place(text):
    name, line = PLACE.fullmatch(text).groups()
    if re.fullmatch("anonymous#[0-9a-f]{8}", name):
        name = "stripped"
    return name, line


def inlined(text):
    if text in ("none", "not known"):
        return text
    names = []
    for part in text.split(", "):
        # a main chunk has no line
        names.append(re.fullmatch(r"(.*?) \(.*\)", part).group(1))
    return ", ".join(names)


def main():
    how = sys.argv[2] if len(sys.argv) > 2 else ""
    for line in open(sys.argv[1], encoding="utf-8"):
        if not line.startswith("vm.1.trace."):
            continue
        m = LINE.fullmatch(line.rstrip("\n"))
        if not m:
            sys.exit("not as documented: " + line)
        no, origin, link, to, code, size, log, start, through = m.groups()
        if how == "log":
            print(no, log)
            continue
        text = (f"trace {no} link {link} {to or 0} code {size} "
                f"{int(code, 16) % 2 ** 32:x}")
        if how != "plain":
            text += " at %s:%s" % place(start) + f" from {origin}"
        if not how:
            text += f" inlined {inlined(through)}"
        print(text)


main()

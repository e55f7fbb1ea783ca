# SPDX-License-Identifier: MIT
"""Collapsed stacks, read without any code of the product.

As a program: fold.py FILE sum | lint | share RE | leaf RE | pair PARENT CHILD
| under OUTER INNER | root RE | frames.  Shares are printed as a fraction.
"""
import re
import sys

STATE = re.compile(r"^(.*)(_\[[NICGJ]\])$", re.S)
LUA = re.compile(r"^.+ \(.*:(\d+|\?)\)$|^main chunk \(.*\)$", re.S)


def is_lua(frame):
    return bool(LUA.match(frame))


def split(stack):
    """Frames, and the state, which the text has at the innermost one's end, as
    one more."""
    frames = stack.split(";")
    m = STATE.match(frames[-1])
    if m:
        frames[-1:] = [f for f in m.groups() if f]
    return tuple(frames)


def join(stack):
    if len(stack) > 1 and STATE.match(stack[-1]):
        stack = stack[:-2] + (stack[-2] + stack[-1],)
    return ";".join(stack)


class Profile:
    """stacks: list of (tuple of frames, count), outermost frame first, the
    state last."""

    def __init__(self, text=""):
        self.text = text
        self.stacks = []
        for line in text.split("\n"):
            stack, _, count = line.rpartition(" ")
            if count.isdigit():
                self.stacks.append((split(stack), int(count)))

    @classmethod
    def read(cls, path):
        with open(path, "rb") as f:
            return cls(f.read().decode("utf-8", "replace"))

    @classmethod
    def of(cls, stacks):
        return cls("".join(f"{join(s)} {n}\n" for s, n in stacks))

    @property
    def total(self):
        return sum(n for _, n in self.stacks)

    def count(self, test):
        return sum(n for s, n in self.stacks if test(s))

    def part(self, test):
        """Share of the samples whose stack passes; no samples: not a number."""
        return self.count(test) / self.total if self.total else float("nan")

    def only(self, test):
        return Profile.of([(s, n) for s, n in self.stacks if test(s)])

    def share(self, rx):
        return self.part(lambda s: has(s, rx))

    def leaf(self, rx):
        """The innermost frame, states apart."""
        return self.part(lambda s: bool(body(s)) and bool(re.search(rx, body(s)[-1])))

    def lua_leaf(self, rx):
        """The innermost Lua frame."""
        return self.part(lambda s: bool(re.search(rx, lua_leaf(s) or "")))

    def pair(self, parent, child):
        return self.part(lambda s: has_pair(s, parent, child))

    def pairs(self, parent, child):
        return self.count(lambda s: has_pair(s, parent, child))

    def under(self, outer, inner):
        return self.part(lambda s: is_under(s, outer, inner))

    def root(self, rx):
        return self.part(lambda s: bool(re.search(rx, s[0])))

    def frames(self):
        return sorted({f for s, _ in self.stacks for f in s})

    def hottest(self, test=is_lua):
        """Frames by the samples they are in, most first."""
        weight = {}
        for s, n in self.stacks:
            for f in set(s):
                if test(f):
                    weight[f] = weight.get(f, 0) + n
        return sorted(weight, key=lambda f: (-weight[f], f))

    def hottest_leaves(self):
        """Lua frames by the samples in which they are innermost."""
        weight = {}
        for s, n in self.stacks:
            f = lua_leaf(s)
            if f:
                weight[f] = weight.get(f, 0) + n
        return sorted(weight, key=lambda f: (-weight[f], f))

    def swapped(self, a, b):
        other = {a: b, b: a}
        return Profile.of([(tuple(other.get(f, f) for f in s), n)
                           for s, n in self.stacks])

    def lint(self, max_line=1 << 20):
        """What is wrong with the text as collapsed stacks; empty: nothing."""
        bad, seen = [], set()
        lines = self.text.split("\n")
        if self.text and lines.pop():
            bad.append("the last line has no newline")
        for i, line in enumerate(lines, 1):
            stack, _, count = line.rpartition(" ")
            if not re.fullmatch(r"[1-9]\d*", count):
                bad.append(f"{i}: no count: {line[-40:]!r}")
            if any(ord(c) < 32 or ord(c) == 127 for c in line):
                bad.append(f"{i}: control byte")
            if any(not f.strip() for f in stack.split(";")):
                bad.append(f"{i}: empty frame")
            if len(line.encode()) > max_line:
                bad.append(f"{i}: {len(line.encode())} bytes")
            if stack in seen:
                bad.append(f"{i}: a stack twice")
            seen.add(stack)
        return bad


def lint_file(path, max_line=1 << 20):
    with open(path, "rb") as f:
        raw = f.read()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        return [f"not UTF-8: {e}"]
    counts = [n for _, n in Profile(text).stacks]
    order = [] if counts == sorted(counts, reverse=True) else ["not sorted"]
    return Profile(text).lint(max_line) + order


def body(stack):
    return stack[:-1] if stack and STATE.match(stack[-1]) else stack


def lua_frames(stack):
    return [f for f in stack if is_lua(f)]


def lua_leaf(stack):
    frames = lua_frames(stack)
    return frames[-1] if frames else None


def has(stack, rx):
    return any(re.search(rx, f) for f in stack)


def has_pair(stack, parent, child):
    return any(re.search(parent, a) and re.search(child, b)
               for a, b in zip(stack, stack[1:]))


def is_under(stack, outer, inner):
    at = next((i for i, f in enumerate(stack) if re.search(outer, f)), None)
    return at is not None and has(stack[at + 1:], inner)


def main(argv):
    path, what, rest = argv[0], argv[1], argv[2:]
    p = Profile.read(path)
    if what == "sum":
        print(p.total)
    elif what == "lint":
        bad = lint_file(path)
        print("\n".join(bad) if bad else "clean")
        return 1 if bad else 0
    elif what == "frames":
        print("\n".join(p.frames()))
    elif what in ("share", "leaf", "lua_leaf", "pair", "under", "root"):
        print(f"{getattr(p, what)(*rest):.4f}")
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

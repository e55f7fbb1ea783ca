# SPDX-License-Identifier: MIT
"""The truth tree: a program of functions each of which is reached on one path
only, so that a stack of it is right or wrong, with nothing in between.

tree.py generate DIR            tree.lua, and tree.json about it
tree.py markers PID ADDRESS GC64 FILE
                                read from outside which function it says it is
                                in, at random moments, until SIGTERM; says ready
tree.py check JSON MARKERS FOLDED...
                                judge profiles made with --lines; MARKERS may be -
tree.py spoil JSON FOLDED HOW OUT
                                the profile with one kind of fault in it
"""
import collections
import json
import math
import os
import random
import re
import signal
import struct
import sys
import time

DEPTH = 7
# kind of call -> (text, ways).  A way is what stands between the caller and the
# function called: "L" a Lua function on the line of the call, else a builtin.
# The first way is the one on which the function is reached; on the others the
# call is only being prepared.  {m} says that the caller's time goes on.
KINDS = {
    "plain": ("x = {f}(x)", ["", "L"]),
    "tail": ("x = (function(z) return {f}(z) end)(x)", ["", "L"]),
    "vararg": ("x = {f}(x, 1, 2, 3)", [""]),
    "dots": ("x = (function(...) local r = {f}(...); {m} return r end)(x, 1)",
             ["L"]),
    "pcall": ("local ok, y = pcall({f}, x); x = y", ["pcall"]),
    "xpcall": ("local ok, y = xpcall({f}, print, x); x = y", ["xpcall"]),
    "pcallc": ("local ok, y = pcall(pcall, {f}, x); x = tonumber(y) or 1",
               ["pcall pcall"]),
    "error": ("pcall(function() x = {f}(x); {m} error('e') end)", ["pcall L"]),
    "handler": ("xpcall(error, function(e) x = {f}(x); {m} return e end)",
                ["xpcall error L"]),
    "wrap": ("x = coroutine.wrap({f})(x)", ["coroutine.wrap_aux"]),
    "resume": ("local co = coroutine.create({f}); local ok, y = "
               "coroutine.resume(co, x); x = y", ["coroutine.resume"]),
    "yield": ("local w = coroutine.wrap(function(y) coroutine.yield(1); local r = "
              "{f}(y); {m} return r end); w(x); x = w()", ["coroutine.wrap_aux L"]),
    "index": ("x = setmetatable({{}}, {{__index = function(t, k) local r = {f}(k); "
              "{m} return r end}})[x]", ["L"]),
    "newindex": ("setmetatable({{}}, {{__newindex = function(t, k, v) x = {f}(v); "
                 "{m} end}})[1] = x", ["L"]),
    "add": ("x = setmetatable({{}}, {{__add = function(a, b) local r = {f}(b); {m} "
            "return r end}}) + x", ["L"]),
    "call": ("x = setmetatable({{}}, {{__call = function(s, y) local r = {f}(y); "
             "{m} return r end}})(x)", ["L"]),
    "lt": ("local t = setmetatable({{}}, {{__lt = function() x = {f}(x); {m} return "
           "true end}}); local y = t < t", ["L"]),
    "eq": ("local h = function() x = {f}(x); {m} return true end; local y = "
           "setmetatable({{}}, {{__eq = h}}) == setmetatable({{}}, {{__eq = h}})",
           ["L"]),
    "concat": ("local y = setmetatable({{}}, {{__concat = function(a, b) x = {f}(x); "
               "{m} return 'c' end}}) .. 'd'", ["L"]),
    "iter": ("for y in (function() local d; return function() if not d then d = 1; "
             "local r = {f}(x); {m} return r end end end)() do x = y end", ["L"]),
    "gsub": ("local y = string.gsub('a', 'a', function(s) x = {f}(x); {m} return s "
             "end)", ["string.gsub L"]),
    "sort": ("local d; table.sort({{1, 2}}, function(a, b) if not d then d = 1; x = "
             "{f}(x) {m} end; return a < b end)", ["table.sort L"]),
    "select": ("x = select(2, 1, ({f}(x)))", [""]),
}

HEAD = """\
-- Made by tests/tree/tree.py.  TREE_SECONDS, TREE_JIT=off, TREE_LOOP.
local c = {0, 0, 0, 0, 0, 0, 0, 0}
local K = tonumber(os.getenv("TREE_LOOP") or 20)
if os.getenv("TREE_JIT") == "off" then jit.off() end
"""
TAIL = """\
print(string.format("cell %p", c))
print("ready")
io.stdout:flush()
local t0, n = os.clock(), 0
local secs = tonumber(os.getenv("TREE_SECONDS") or 10)
repeat
  for q = 1, 50 do
    local x = f0(n % 7)
    n = n + 1; c[1] = -1
  end
until os.clock() - t0 > secs
print("rounds " .. n)
"""


# ---- the program ----


class Maker:
    def __init__(self):
        self.lines = HEAD.splitlines()
        self.nodes = []
        self.kinds = 0
        self.order = list(KINDS)

    def emit(self, text):
        self.lines.append(text)
        return len(self.lines)

    def kind(self):
        self.kinds += 1
        return self.order[self.kinds * 5 % len(self.order)]

    def loop(self, i):
        self.emit("  for i = 1, K do")
        for q in range(2 + i % 3):
            line = len(self.lines) + 1
            self.emit(f"    c[2] = {line}; x = (x * 1.25 + i * {q + 1}) % 997")
        self.emit("  end")

    def node(self, depth):
        i = len(self.nodes)
        self.nodes.append({})
        kids = []
        if depth < DEPTH:
            for _ in range(2 if depth < 4 else 1):
                kind = self.kind()
                kids.append((self.node(depth + 1), kind))
        dots = ", ..." if i % 4 == 3 else ""
        first = self.emit(f"local function f{i}(x{dots})")
        self.emit(f"  c[1] = {i}")
        self.loop(i)
        calls = []
        for kid, kind in kids:
            text = KINDS[kind][0].format(f=f"f{kid}", m=f"c[1] = {i};")
            calls.append([self.emit(f"  do {text} end"), kid, kind])
            self.emit(f"  c[1] = {i}")
        self.emit("  return x % 1000")
        self.nodes[i] = {"first": first, "last": self.emit("end"), "calls": calls}
        return i

    def make(self, directory):
        self.node(0)
        first = len(self.lines) + 1
        self.lines += TAIL.splitlines()
        with open(os.path.join(directory, "tree.lua"), "w") as f:
            f.write("\n".join(self.lines) + "\n")
        with open(os.path.join(directory, "tree.json"), "w") as f:
            json.dump({"nodes": self.nodes, "lines": self.lines, "main": first,
                       "root": 1 + next(i for i, l in enumerate(self.lines)
                                        if "= f0(" in l)}, f)
        used = {kind for n in self.nodes for _, _, kind in n["calls"]}
        if used != set(KINDS):
            sys.exit(f"kinds left out: {sorted(set(KINDS) - used)}")


# ---- one stack ----

LUA = re.compile(r"^(.*) \((?:.*/)?tree\.lua:(\d+|\?)\)$", re.S)
STATE = re.compile(r"_\[[NICGJ]\]$")
BUILTINS = {w for _, ways in KINDS.values() for way in ways for w in way.split()}
BUILTINS |= {"coroutine.create", "coroutine.wrap", "coroutine.yield", "setmetatable",
             "tonumber", "select", "print", "os.clock", "string.format"}
BUILTINS -= {"L"}
MARK = re.compile(r"^\[(partial|truncated|unknown|lost)\b")


class Tree:
    def __init__(self, path):
        with open(path) as f:
            self.__dict__.update(json.load(f))
        # function -> the one of the first eight branches that it belongs to
        self.branch = {"main": "main", "0": "0"}
        for i, node in enumerate(self.nodes):
            for _, kid, _ in node["calls"]:
                up = self.branch[str(i)]
                deep = up.count("/") == 3
                self.branch[str(kid)] = up if deep else f"{up}/{kid}"

    def tokens(self, stack):
        """What counts of a stack: (name, line) of each frame of the tree,
        builtins by name, marks."""
        frames = STATE.sub("", stack).split(";")
        out, inside = [], False
        for frame in frames:
            m = LUA.match(frame)
            if m:
                inside = True
                out.append((m.group(1), 0 if m.group(2) == "?" else
                            int(m.group(2))))
            elif MARK.search(frame) or inside and frame in BUILTINS:
                out.append(frame)
        return out

    def judge(self, stack):
        """(verdict, node).  right: a chain of the tree; partial: said to be
        incomplete; else what is wrong with it."""
        self.unnamed = False
        tokens = self.tokens(stack)
        if any(isinstance(t, str) and MARK.search(t) for t in tokens):
            return "partial", None
        if not tokens:
            return "no Lua frame", None
        name, line = tokens[0] if isinstance(tokens[0], tuple) else (tokens[0], 0)
        if not name.startswith("main chunk") or \
                line < self.main and (line or len(tokens) > 1):
            return f"no main chunk but {name}:{line}", None
        rest = tokens[1:]
        if not rest:
            return "right", None
        if isinstance(rest[0], str):  # os.clock
            return ("right" if len(rest) == 1 and rest[0] in self.lines[line - 1]
                    else f"main chunk: {rest[0]}"), None
        if line != self.root:
            return f"f0 is not called on line {line}", None
        return self.descend(0, rest)

    def descend(self, i, tokens):
        node = self.nodes[i]
        name, line = tokens[0]
        if not self.holds(i, tokens):
            return f"line {line} is not in f{i}", i
        if name != f"f{i}":
            if name != "anonymous":
                return f"f{i} is called {name}", i
            self.unnamed = True
        tokens = tokens[1:]
        if not tokens:
            return "right", i
        call = next((c for c in node["calls"] if c[0] == line), None)
        if not call:
            return f"f{i} calls nothing on line {line}", i
        return self.through(i, call, tokens)

    def through(self, i, call, tokens):
        line, kid, kind = call
        for way in KINDS[kind][1]:
            verdict = self.along(way.split(), line, kid, tokens)
            if verdict == "kid":
                return self.descend(kid, tokens[len(way.split()):])
            if verdict:
                return "right", i
        # a builtin that prepares the call
        leaf = tokens[-1]
        if isinstance(leaf, str) and leaf.split("_")[0] in self.lines[line - 1] and \
                (len(tokens) == 1 or self.along(KINDS[kind][1][0].split(), line, kid,
                                                tokens[:-1]) == "way"):
            return "right", i
        return f"{kind}: {tokens} between f{i}:{line} and f{kid}", i

    def along(self, way, line, kid, tokens):
        """kid: the way leads to it; way: the stack ends on the way."""
        for k, (want, got) in enumerate(zip(way, tokens)):
            lines = (line, 0) if k == len(tokens) - 1 else (line,)
            if got != want and not (want == "L" and isinstance(got, tuple) and
                                    got[1] in lines and not self.is_node(got)):
                return None
        if len(tokens) <= len(way):
            return "way"
        return "kid" if self.holds(kid, tokens[len(way):]) else None

    def holds(self, i, tokens):
        """Is the next frame of function i?  Only the innermost may lack a line."""
        got, node = tokens[0], self.nodes[i]
        return isinstance(got, tuple) and (
            node["first"] <= got[1] <= node["last"] or
            not got[1] and len(tokens) == 1 and got[0] == f"f{i}")

    @staticmethod
    def is_node(token):
        return re.fullmatch(r"f\d+", token[0]) is not None


def read_folded(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        for row in f.read().split("\n"):
            stack, _, count = row.rpartition(" ")
            if count.isdigit():
                yield stack, int(count)


# ---- a profile ----


def distance(a, b):
    """Half the sum of differences between two distributions of counts, and what
    chance alone makes of it."""
    na, nb = sum(a.values()), sum(b.values())
    tv = chance = 0
    for k in set(a) | set(b):
        tv += abs(a[k] / na - b[k] / nb)
        p = (a[k] + b[k]) / (na + nb)
        chance += math.sqrt(2 / math.pi * p * (1 - p) * (1 / na + 1 / nb))
    return tv / 2, chance / 2


def regroup(counts, groups):
    out = collections.Counter()
    for k, n in counts.items():
        out[groups[k]] += n
    return out


def check(tree, markers, profiles):
    verdicts, leaves = collections.Counter(), collections.Counter()
    lineless = unnamed = 0
    examples = {}
    for stack, n in (row for path in profiles for row in read_folded(path)):
        verdict, node = tree.judge(stack)
        kind = verdict if verdict in ("right", "partial") else "wrong"
        verdicts[kind] += n
        if kind == "right":
            unnamed += n * tree.unnamed
            lineless += n * stack.split(";")[-1].count("tree.lua:?")
            leaves["main" if node is None else str(node)] += n
        if kind != "right":
            examples.setdefault(verdict, [0, stack])[0] += n
    total = sum(verdicts.values())
    print(f"samples {total}")
    for kind in ("right", "partial", "wrong"):
        print(f"{kind} {verdicts[kind]}")
    print(f"percent {100 * verdicts['right'] / max(total, 1):.3f}")
    print(f"lineless {lineless}\nunnamed {unnamed}")
    print(f"reached {len(leaves)}")
    if markers != "-":
        with open(markers) as f:
            said = collections.Counter(json.load(f))
        print(f"markers {sum(said.values())}")
        for name, groups in (("leaves", {k: k for k in tree.branch}),
                             ("branches", tree.branch)):
            tv, chance = distance(regroup(leaves, groups), regroup(said, groups))
            print(f"{name} {tv:.4f} {1.5 * chance + 0.04:.4f}")
    for verdict, (n, stack) in sorted(examples.items(), key=lambda e: -e[1][0])[:8]:
        print(f"# {n} x {verdict}\n#   {stack[-700:]}")


# ---- what the program says of itself ----


def markers(pid, address, gc64, path):
    """c[1] of the table at address.  GCtab.array: lj_obj.h; element 0 first.  Only
    where the process has run since the last time: it counts its CPU time."""
    said = collections.Counter()
    with open(f"/proc/{pid}/mem", "rb", 0) as mem:
        def read(at, form):
            raw = os.pread(mem.fileno(), struct.calcsize(form), at)
            if not raw:
                sys.exit(f"process {pid} has ended")
            return struct.unpack(form, raw)[0]

        array = read(address + 16, "Q") if gc64 else read(address + 8, "I")
        rng = random.Random(1)
        stop = []
        signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
        clock, used = ~pid << 3 | 2, 0  # clock_getcpuclockid(3)
        print("ready", flush=True)
        while not stop:
            time.sleep(rng.uniform(0.0005, 0.002))
            now = time.clock_gettime(clock)
            if now - used < 0.0003:
                continue
            used = now
            v = read(array + 8, "d")
            said["main" if v < 0 else str(int(v))] += 1
    with open(path, "w") as f:
        json.dump(said, f)


# ---- faults ----


def spoil(tree, stacks, how):
    """One sample in a hundred gets the fault; the rest stays."""
    rng = random.Random(3)
    out = collections.Counter()
    for stack, n in stacks:
        frames = stack.split(";")
        lua = [i for i, f in enumerate(frames) if LUA.match(STATE.sub("", f))]
        bad = how(rng, frames, lua) if len(lua) > 4 else None
        hit = max(1, n // 20) if bad else 0
        if bad:
            out[";".join(bad)] += hit
        out[stack] += n - hit
    return out


def without(rng, frames, lua):
    k = rng.choice(lua[1:-1])
    return frames[:k] + frames[k + 1:]


def swapped(rng, frames, lua):
    k = rng.randrange(1, len(lua) - 2)
    out = list(frames)
    out[lua[k]], out[lua[k + 1]] = out[lua[k + 1]], out[lua[k]]
    return out


def other_line(rng, frames, lua):
    k = rng.choice(lua[1:-1])
    out = list(frames)
    out[k] = re.sub(r":(\d+)\)", lambda m: f":{int(m.group(1)) + 1})", out[k])
    return out


def no_root(rng, frames, lua):
    return frames[:lua[0]] + frames[lua[1]:]


def twice(rng, frames, lua):
    k = rng.choice(lua[1:-1])
    return frames[:k + 1] + frames[k:]


def no_builtin(rng, frames, lua):
    k = [i for i in range(lua[0], lua[-1]) if frames[i] in BUILTINS]
    return frames[:k[0]] + frames[k[0] + 1:] if k else None


def to_leaf(rng, frames, lua):
    """A leaf that is none: the frames below the root moved to another branch."""
    return frames[:lua[1] + 1] + frames[lua[3]:]


def short(rng, frames, lua):
    """Right chains that all end too early: wrong as a distribution only."""
    return frames[:lua[2]]


SPOILS = {f.__name__: f for f in (without, swapped, other_line, no_root, twice,
                                  no_builtin, to_leaf, short)}


def main(argv):
    what, rest = argv[0], argv[1:]
    if what == "generate":
        Maker().make(*rest)
    elif what == "markers":
        markers(int(rest[0]), int(rest[1], 16), rest[2] == "1", rest[3])
    elif what == "check":
        check(Tree(rest[0]), rest[1], rest[2:])
    elif what == "spoil":
        out = spoil(Tree(rest[0]), list(read_folded(rest[1])), SPOILS[rest[2]])
        with open(rest[3], "w") as f:
            f.writelines(f"{s} {n}\n" for s, n in out.items())
    elif what == "spoils":
        print(" ".join(SPOILS))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:] or [""])

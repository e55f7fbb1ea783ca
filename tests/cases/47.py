# SPDX-License-Identifier: MIT
# Three VMs: two interleaved on the main thread, one on a second thread.
from caselib import fn, lua_frames, re

MODES = [""]
ATTACH = ["--threads"]
A, B, C = (fn(f"{x}_hot", 1, f"{x}_hot.lua") for x in "abc")
FRAME = r'^frame \(\[string "function frame\(\).*"\]:1\)$'


def general(c, p, r):
    from caselib import general as usual
    usual(c, p, r, rooted=0)
    c.true("three VMs", r.account().get("vms") == 3)
    c.least("rooted below the thread", p.part(
        lambda s: len(s) > 1 and s[1] in ("_start", "[thread start]")), 0.98)


def check(c, p, t):
    main = p.only(lambda s: any(re.search(f"{A}|{B}|{FRAME}", f) for f in s))
    second = p.only(lambda s: any(re.search(C, f) for f in s))
    roots = [{s[0] for s, _ in x.stacks} for x in (main, second)]
    c.true("a thread each", len(roots[0]) == len(roots[1]) == 1
           and not roots[0] & roots[1])
    c.near("a_hot", main.lua_leaf(A), 0.5, 0.03)
    c.near("b_hot", main.lua_leaf(B), 0.5, 0.03)
    inner = main.only(lambda s: any(re.search(B, f) for f in s))
    c.least("frame > call_b > b_hot", inner.part(lambda s: [
        bool(re.search(x, f)) for x, f in zip((FRAME, B), lua_frames(s))] == [True, True]
        and len(lua_frames(s)) == 2), 0.99)
    c.least("call_b between the VMs", inner.part(nested), 0.98)
    own = p.only(lambda s: roots[1] and s[0] in roots[1])
    c.least("c_hot alone in its thread", own.share(C), 0.99)
    c.near("the threads' halves", second.total / max(1, p.total), 0.5, 0.1)


def nested(s):
    at = {n: next((i for i, f in enumerate(s) if re.search(rx, f)), -1)
          for n, rx in (("frame", FRAME), ("call", "^call_b$"), ("b", B))}
    return -1 < at["frame"] < at["call"] < at["b"]


FR = ('host/1;_start;main;lua_call;frame ([string "function frame() a_hot(200000) '
      'call_b() ret..."]:1);')
IDEAL = (FR + "a_hot (a_hot.lua:1)_[N] 250\n"
         + FR + "call_b;lua_call;b_hot (b_hot.lua:1)_[N] 250\n"
         + "host/2;[thread start];thr;lua_call;c_hot (c_hot.lua:1)_[N] 500\n")
TRUTH = {}

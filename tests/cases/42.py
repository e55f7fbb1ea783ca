# SPDX-License-Identifier: MIT
# Another program under the same pid: each image's samples have its own names.
import signal
import time

import caselib
from caselib import chunk, fn, until

MODES = ["off", "on"]
LIFE = 30
FIRST, SECOND = fn("first_hot", 4), fn("second_hot", 2, "second.lua")
MAIN, MAIN2 = chunk(), chunk("second.lua")


def sample(r):
    """The exec comes after three seconds of CPU."""
    s = r.begin()
    until(lambda: "second" in r.target_out(), 25)
    time.sleep(2)
    return r.finish(s, signal.SIGINT)


def of_second(c, p):
    c.least("second_hot", p.share(SECOND), 0.95)
    c.zero("first_hot after the exec", p.count(
        lambda s: any("first_hot" in f or "t.lua:" in f for f in s)))


def general(c, p, r):
    caselib.general(c, p, r)
    c.true("not said to have ended", "ended" not in r.stderr)
    c.true("exec happened", "second" in r.target_out())
    of_second(c, r.attach(duration=1))


def check(c, p, t):
    c.least("first_hot", p.share(FIRST), 0.1)
    c.least("second_hot", p.share(SECOND), 0.1)
    c.least("of the two", p.share(FIRST) + p.share(SECOND), 0.97)
    for main, hot in ((MAIN, FIRST), (MAIN2, SECOND)):
        c.near(f"{hot} in its own image", p.pair(main, hot), p.share(hot), 0.001)
    c.zero("frames of both images in one stack", p.count(
        lambda s: any("t.lua" in f for f in s)
        and any("second.lua" in f for f in s)))


R = "_start;main;lua_pcall;"
IDEAL = (R + "main chunk (/x/t.lua);first_hot (/x/t.lua:4)_[N] 600\n"
         + R + "main chunk (/x/second.lua);second_hot (/x/second.lua:2)_[N] 400\n")
TRUTH = {}

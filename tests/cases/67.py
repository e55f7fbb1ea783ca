# SPDX-License-Identifier: MIT
# The first thread waits for a child by vfork, two of every three seconds, and
# cannot be stopped meanwhile; another thread goes on.
import signal
import time

import caselib
from caselib import Run, re, run_time_of, state_of, until

MODES = [""]
SECS = 7
FIRST, SECOND = (rf'^{n} \(\[string "function {n}.*"\]:1\)$'
                 for n in ("main_hot", "second_hot"))


def sample(r):
    """With the seconds of CPU that each thread had."""
    before = run_time_of(r.pid)
    p = r.attach(duration=SECS)
    used = {t: s - before.get(t, 0) for t, s in run_time_of(r.pid).items()}
    r.first = used.pop(r.pid)
    r.second = sum(used.values())
    return p


def late(r):
    """The part of the ticks that came too late, on a machine with other work:
    nothing is known of those moments, so they give a share room."""
    m = re.search(r", (\d+) late ticks", r.stderr)
    return int(m[1]) / (SECS * 999) if m else 0


def general(c, p, r):
    caselib.general(c, p, r)
    c.near("the first thread's share of the samples, of the CPU time",
           p.share(FIRST), r.first / (r.first + r.second), 0.05 + late(r))
    c.least("second_hot's seconds in samples",
            p.share(SECOND) * p.total / 999, (0.95 - late(r)) * r.second)


def check(c, p, t):
    c.least("main_hot", p.share(FIRST), 0.03)
    c.least("second_hot", p.share(SECOND), 0.5)
    c.least("of the two", p.share(FIRST) + p.share(SECOND), 0.97)
    for what, hot, root in (("first", FIRST, "^_start$"),
                            ("second", SECOND, r"^\[thread start\]$")):
        c.near(f"{what} thread's function in it",
               p.part(lambda s: re.search(root, s[0]) and caselib.has(s, hot)),
               p.share(hot), 0.001)


def more(c, tools, folder):
    r = Run(tools, folder, {}, 6)
    try:
        r.start()
        s = r.begin()
        for _ in range(2):  # the second time with a stop that is owed
            until(lambda: state_of(r.pid) != "D", 5)
            c.true("in vfork", until(lambda: state_of(r.pid) == "D", 5))
            time.sleep(0.3)
            child(c, r)
        began = time.time()
        p = r.finish(s, signal.SIGINT)
        c.true("still in vfork", state_of(r.pid) == "D")
        c.most("Ctrl-C: seconds to the end", time.time() - began, 1.3)
        c.true(f"Ctrl-C: status 0 ({r.status})", r.status == 0)
        check(c, p, {})
        c.true("threads go on", r.truth().get("vforks"))
    finally:
        r.end()


def child(c, r):
    """It is left alone: its parent would hang."""
    for pid in r.children():
        with open(f"/proc/{pid}/status") as f:
            c.true("child not traced", re.search(r"^TracerPid:\s*0$", f.read(), re.M))
        c.true("child not stopped", state_of(pid) in "RS")


R = "{};run;lua_pcall;{} ([string \"function {}() local s=0...\"]:1)_[N] {}\n"
IDEAL = (R.format("[thread start];start_thread;thr", *["second_hot"] * 2, 750)
         + R.format("_start;main", *["main_hot"] * 2, 250))
TRUTH = {}

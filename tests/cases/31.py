# SPDX-License-Identifier: MIT
# A program that does not expect EINTR: five threads in slow system calls.
import re

from caselib import Run

MODES = [""]
WORK = r'^work \(\[string "function work\(\).*"\]:1\)$'
CALLS = ("epoll_wait", "poll", "nanosleep", "semtimedop", "read")
# A signal cuts these short when it comes as they begin to wait, a stop those that
# the kernel does not begin anew after it; signal(7), and the manual says so.
NOT_AFTER_A_STOP = ("epoll_wait", "semtimedop")
NOT_AFTER_A_SIGNAL = ("epoll_wait", "poll", "nanosleep", "semtimedop")


def check(c, p, t):
    c.least("work", p.share(WORK), 0.2)
    c.near("lua_pcall>work", p.pair("^lua_pcall$", WORK), p.share(WORK), 0.001)


def counts(c, r):
    """What each call counted, at the target's end."""
    r.truth()
    found = {m[1]: (int(m[2]), int(m[3])) for m in re.finditer(
        r"^truth (\w+) calls (\d+) eintr (\d+)$", r.target_out(), re.M)}
    c.true("all calls counted", set(found) == set(CALLS))
    return found


def more(c, tools, folder):
    """Ten seconds with us, and beside it one without: the machine is the same."""
    r, alone = (Run(tools, folder, {}, 12) for _ in range(2))
    try:
        r.start()
        alone.start()
        r.attach(duration=10)
        with_us, without = counts(c, r), counts(c, alone)
    finally:
        r.end()
        alone.end()
    for call in CALLS:
        n, eintr = with_us.get(call, (0, 1))
        if call in (NOT_AFTER_A_STOP if tools.outside else NOT_AFTER_A_SIGNAL):
            c.most(f"{call} EINTR", eintr / max(n, 1), 0.02)
        else:
            c.zero(f"{call} EINTR", eintr)
        c.zero(f"{call} EINTR without us", without.get(call, (0, 1))[1])
        before = without.get(call, (0, 1))[0]
        # two beside each other differ among themselves on a busy machine
        c.least(f"{call} calls, of those without us", n / max(before, 1), 0.9)


R = "_start;main;lua_pcall"
IDEAL = (f'{R};work ([string "function work() local s=0..."]:1)_[N] 600\n'
         f'_start;main;write_[C] 400\n')
TRUTH = {}

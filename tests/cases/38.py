# SPDX-License-Identifier: MIT
# The target ends, in six ways, while an output was asked for a minute.
import os
import signal
import subprocess
import time

import caselib
from caselib import Run, re

MODES = [""]
ENV = {"CASE_END": "exit"}
ENDS = True
WORK = r'^work \(\[string "function work\(\).*"\]:1\)$'
STATUS = {"_exit": 0, "osexit": 3, "kill": -signal.SIGKILL,
          "segv": -signal.SIGSEGV, "abort": -signal.SIGABRT}


def left_behind(pid):
    """Files that are named after the target."""
    return [f for d in ("/dev/shm", "/tmp") for f in os.listdir(d)
            if re.search(rf"\b{pid}\b", f)]


def ended(c, r, s, pid, began, cpu):
    """The session after the target's death, of which this is the moment."""
    died = time.time()
    p = r.finish(s, timeout=20)
    a = r.account()
    c.most("seconds to the end", time.time() - died, 1)
    c.true(f"status 0 ({r.status}), says so",
           r.status == 0 and re.search(rf"\b{pid} \(host\) ended", r.stderr))
    c.true("a closing line that agrees", a and a["samples"] == p.total)
    # of its CPU time, but for the start; late ticks are those that found no CPU
    late = re.search(r", (\d+) late ticks", r.stderr)
    seconds = (p.total + (int(late[1]) if late else 0)) / 999
    c.least("seconds in samples", seconds, 0.95 * (cpu - 0.2))
    c.most("seconds in samples", seconds, 1.05 * (died - began) + 0.1)
    c.true("nothing left behind", not left_behind(pid))
    return p


def sample(r):
    return r.attach("-d", "60")


def general(c, p, r):
    caselib.general(c, p, r)
    c.true("says that it ended", re.search(rf"\b{r.pid} \(host\) ended", r.stderr))


def check(c, p, t):
    c.least("work", p.share(WORK), 0.95)
    c.near("lua_pcall>work", p.pair("^lua_pcall$", WORK), p.share(WORK), 0.001)


def more(c, tools, folder):
    r = Run(tools, folder, ENV, 5)
    try:
        r.start()  # builds it
        for how, status in STATUS.items():
            one(c, r, how, status)
    finally:
        r.end()


def one(c, r, how, status):
    env = dict(r.env, **({} if r.tools.outside else
                         {"LD_PRELOAD": r.tools.agent}))
    host = subprocess.Popen([os.path.join(r.out, "host"), how], env=env,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        began = time.time()
        s = r.begin("-d", "60", pid=host.pid)
        _, got, usage = os.wait4(host.pid, 0)
        host.returncode = got = os.waitstatus_to_exitcode(got)
        c.figures.append(f"{how}:")
        c.true(f"its own status {status} ({got})", got == status)
        check(c, ended(c, r, s, host.pid, began,
                       usage.ru_utime + usage.ru_stime), {})
    finally:
        host.kill()
        host.wait()


R = "_start;main;lua_pcall"
IDEAL = (f'{R};work ([string "function work() local s=0..."]:1)_[N] 980\n'
         f'{R};bye ([string "other"]:1)_[N] 20\n')
TRUTH = {}

# SPDX-License-Identifier: MIT
# Stopped before we come; stopped while we are there; we are killed meanwhile.
import os
import signal
import subprocess
import threading
import time

import caselib
from caselib import BUSY_IDEAL, busy, state_of

MODES = []


def check(c, p, t):
    busy(c, p)


def more(c, tools, folder):
    r = caselib.Run(tools, folder, {}, 20)
    try:
        r.start()
        c.true("stopped before", state_of(r.pid) == "T")
        began = time.time()
        p = r.attach(duration=1)
        c.most("seconds", time.time() - began, 4)
        c.zero("samples", p.total)
        c.true("says that it is stopped", "is stopped" in r.stderr)
        c.true("stopped after", state_of(r.pid) == "T")
        os.kill(r.pid, signal.SIGCONT)
        timer = threading.Timer(1, os.kill, (r.pid, signal.SIGSTOP))
        again = threading.Timer(3, os.kill, (r.pid, signal.SIGCONT))
        timer.start()
        again.start()
        p = r.attach(duration=4)
        again.join()
        c.least("samples around a stop", p.total, 50)
        check(c, p, {})
        c.true("goes on", state_of(r.pid) in "RS")
        killed(c, tools, r)
    finally:
        r.end()


def killed(c, tools, r):
    us = subprocess.Popen([tools.attach, "-F", "499", "-d", "9", "-o",
                           os.path.join(r.out, "killed.folded"), str(r.pid)],
                          stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    os.kill(r.pid, signal.SIGSTOP)
    time.sleep(0.3)
    us.kill()
    us.wait()
    c.true("stopped, not traced, after our SIGKILL", state_of(r.pid) == "T")
    os.kill(r.pid, signal.SIGCONT)
    time.sleep(0.3)
    c.true("goes on after it", state_of(r.pid) in "RS")
    c.least("samples after that", r.attach(duration=1).total, 20)


IDEAL = BUSY_IDEAL
TRUTH = {}

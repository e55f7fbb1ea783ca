# SPDX-License-Identifier: MIT
# The pid is a launcher's; its child has the VM.
import re
import time

from caselib import BUSY_IDEAL, Run, busy

MODES = ["off", "on"]


def child_with_vm(r):
    end = time.time() + 5
    while time.time() < end:
        for pid in r.children():
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() == "luajit":
                    return pid
        time.sleep(0.05)
    raise RuntimeError("the launcher has no child luajit")


pid = child_with_vm


def check(c, p, t):
    busy(c, p)


def refused(c, r, what):
    began = time.time()
    r.attach(duration=5)
    c.most(f"{what}: seconds to say so", time.time() - began, 2)
    c.true(f"{what}: exit status 4 ({r.status})", r.status == 4)
    c.true(f"{what}: names pid and program",
           re.search(rf"no LuaJIT VM in {r.pid} \(game\.sh\)", r.stderr))
    c.true(f"{what}: names the child",
           re.search(rf"\b{child_with_vm(r)} \(luajit\)", r.stderr))


def more(c, tools, folder):
    for what, preload in (("with the agent", tools.agent), ("without", "")):
        r = Run(tools, folder, {"CASE_PRELOAD": preload}, 3)
        try:
            r.start()
            refused(c, r, what)
            r.truth()
            time.sleep(0.2)
            lines = {w.split()[0] for w in r.target_out().splitlines()}
            c.true(f"{what}: no line of ours in its output",
                   lines == {"ready", "truth", "launcher"})
        finally:
            r.end()


IDEAL = BUSY_IDEAL
TRUTH = {}

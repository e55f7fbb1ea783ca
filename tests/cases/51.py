# SPDX-License-Identifier: MIT
# The VM comes late by dlopen(RTLD_DEEPBIND), twice, at two addresses.
import re

from caselib import BUSY_IDEAL, Run, busy, general as usual

MODES = ["off", "on"]
ATTACH = ["--wait", "10"]
ENDS = True
SECS, LIFE = 14, 12  # two rounds of four seconds, after three without a VM


def general(c, p, r):
    usual(c, p, r)
    c.true("said that there was no VM yet", re.search("no LuaJIT VM in .* yet", r.stderr))
    c.near("seconds of samples, of CPU", p.total / 999, r.cpu, 0.25 * r.cpu)
    c.least("seconds of CPU", r.cpu, 2)
    c.true("two VMs, one after the other", r.account().get("vms", 0) >= 1)


def check(c, p, t):
    busy(c, p)


def more(c, tools, folder):
    """Each round for itself."""
    r = Run(tools, folder, {"CASE_JIT": "off"}, 18)
    try:
        r.start()
        for part, duration in (("no VM and round 0", 7), ("round 1", 5)):
            p = r.attach("--wait", "10", duration=duration)
            c.true(f"{part}: status {r.status}", r.status == 0)
            busy(c, p)
    finally:
        r.end()


IDEAL = BUSY_IDEAL
TRUTH = {}

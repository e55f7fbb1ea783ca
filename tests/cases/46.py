# SPDX-License-Identifier: MIT
# The first thread has ended, the game goes on in another.
import os
import subprocess
import time

import caselib
from caselib import Profile, Run, account, re, run_time_of, state_of

MODES = [""]
ENDS = True  # a process whose first thread is a zombie
HOT = r'^game_hot \(\[string "function game_hot.*"\]:1\)$'


def general(c, p, r):
    caselib.general(c, p, r)
    c.true("a zombie", state_of(r.pid) == "Z")
    c.true("goes on", len(run_time_of(r.pid)) == 2)


def check(c, p, t):
    c.least("game_hot", p.share(HOT), 0.95)
    c.least("lua_pcall>game_hot", p.pair("^lua_pcall$", HOT), 0.95)
    c.least("in the game's thread", p.pair("^start_thread$", "^game$"), 0.95)


def more(c, tools, folder):
    ends(c, tools, folder)
    launched(c, tools, folder)


def ends(c, tools, folder):
    """Its end is the end of its last thread."""
    r = Run(tools, folder, {}, 3)
    try:
        r.start()
        began = time.time()
        p = r.attach("-d", "60")
        c.most("seconds to the end of the process", time.time() - began, 5)
        c.true("status 0, says so", r.status == 0 and "ended" in r.stderr)
        check(c, p, {})
    finally:
        r.end()


def launched(c, tools, folder):
    """There before the first thread ends."""
    r = Run(tools, folder, {}, 3)
    try:
        r.start()
        path = r.path()
        outside = ["--no-agent"] if tools.outside else []
        s = subprocess.run(
            [tools.attach, *outside, "-F", "999", "-o", path, "--",
             os.path.join(r.out, "host")], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, timeout=30,
            env=dict(r.env, TECS_AGENT_LIB=tools.agent))
        p = Profile.read(path) if os.path.isfile(path) else Profile()
        c.true(f"launched: status 0 ({s.returncode})", s.returncode == 0)
        c.true("launched: not said to have exited before",
               not re.search("no such|has exited", s.stderr, re.I))
        c.least("launched: samples", account(s.stderr).get("samples", 0), 500)
        check(c, p, {})
    finally:
        r.end()


R = "[thread start];start_thread;game;lua_pcall"
IDEAL = (f'{R};game_hot ([string "function game_hot() local s=0..."]:1)_[N] 980\n'
         f'{R};print ([string "other"]:1)_[N] 20\n')
TRUTH = {}

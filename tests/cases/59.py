# SPDX-License-Identifier: MIT
# A game of another user: who may profile it, and what the others are told.
import os
import shutil
import subprocess
import tempfile

from caselib import BUSY_IDEAL, Profile, Run, busy, re

MODES = ["off", "on"]
ROOT = True
OWNER, THIRD = 65534, 1234


def general(c, p, r):
    from caselib import general as usual
    usual(c, p, r)
    c.true("the output is the caller's", os.stat(r.last).st_uid == os.getuid())


def check(c, p, t):
    busy(c, p)


def as_user(uid, r, agent, path):
    """tecs-attach as that user, without capabilities."""
    return subprocess.run(
        ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
         "--inh-caps=-all", "--bounding-set=-all", agent, "-F", "999", "-d", "2",
         "-o", path, *(["--no-agent"] if r.tools.outside else []), str(r.pid)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)


def more(c, tools, folder):
    r = Run(tools, folder, {}, 12)
    # a place where others can write, and a program that they can read
    place = tempfile.mkdtemp(prefix="case.")
    try:
        r.start()
        os.chmod(place, 0o777)
        program = shutil.copy(tools.attach, place)
        owner(c, r, program, os.path.join(place, "owner.folded"))
        third(c, r, program, os.path.join(place, "third.folded"))
        if not tools.outside:
            memory(c, r)
    finally:
        r.end()
        shutil.rmtree(place, ignore_errors=True)


def owner(c, r, program, path):
    s = as_user(OWNER, r, program, path)
    scope = "/proc/sys/kernel/yama/ptrace_scope"
    if os.path.exists(scope) and open(scope).read().strip() != "0":
        c.true("the owner: works, or names the reason",
               s.returncode == 0 or "ptrace_scope" in s.stderr)
        return
    c.true(f"the owner: status 0 ({s.returncode})", s.returncode == 0)
    p = Profile.read(path)
    c.samples = p.total  # few
    busy(c, p)
    c.true("the owner: the output is his", os.stat(path).st_uid == OWNER)


def third(c, r, program, path):
    s = as_user(THIRD, r, program, path)
    c.true(f"a third user: refused ({s.returncode})", s.returncode != 0)
    c.true("a third user: whose it is, and what would help",
           re.search(rf"not permitted.*uid {OWNER}.*uid {THIRD}.*"
                     "as that user.*CAP_SYS_PTRACE", s.stderr, re.S))
    c.true("a third user: it is there, and a LuaJIT",
           not re.search("no such process|no LuaJIT", s.stderr, re.I))
    c.true("a third user: no output", not os.path.exists(path))


def memory(c, r):
    """The agent's memory has no name, and who has it open may be its owner
    alone."""
    found = [f for f in os.listdir("/dev/shm") if str(r.pid) in f]
    c.true("no file in /dev/shm", not found)
    fds = f"/proc/{r.pid}/fd"
    ours = [f for f in os.listdir(fds)
            if "tecs" in os.readlink(os.path.join(fds, f))]
    c.least("the agent's memory", len(ours), 1)
    for f in ours:
        st = os.stat(os.path.join(fds, f))
        c.true(f"its owner and mode ({st.st_uid} {st.st_mode & 0o777:o})",
               st.st_uid == OWNER and not st.st_mode & 0o077)


IDEAL = BUSY_IDEAL
TRUTH = {}

# SPDX-License-Identifier: MIT
"""What the cases share: verdicts with figures, frame patterns, running things.

A case is one file NN.py beside this one:
  MODES   values of CASE_JIT that it is run with ("" leaves it unset)
  ATTACH  options of tecs-attach besides rate, duration and output
  ENV     environment of the target
  sample(r)       makes the profile, where a session of SECS is not enough
  SECS, LIFE      length of the profile and of the target's life
  WAITS, ENDS     wait for the target's truth; it ends by itself meanwhile
  check(c, p, t)  judges a profile p with the target's truth t
  IDEAL, TRUTH    a profile written by hand that is right, for --prove
  more(c, r)      behaviour that is not in a profile (optional)
  ROOT    it needs root, and setpriv
  AGENT   the case, or with AGENT_MORE its more(), is about the agent alone

A case about trace aborts has instead of check:
  trace(tools, folder)   runs it; its table (or None), the truth
  check_table(c, table, t), IDEAL_TABLE
"""
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
from aborts import Table, plain  # noqa: E402,F401
from fold import Profile, body, has, has_pair, is_lua, is_under, lint_file, lua_frames, lua_leaf  # noqa: E402,F401

FILE = r"\((?:[^()]*/)?t\.lua"


def fn(name, line, file="t.lua"):
    """A frame of a Lua function, by its name and first line."""
    return rf"^{name} \((?:[^()]*/)?{re.escape(file)}:{line}\)$"


def chunk(file="t.lua", line=None):
    at = "" if line is None else f":{line}"
    return rf"^main chunk \((?:[^()]*/)?{re.escape(file)}{at}\)$"


MAIN = chunk()


class Checks:
    """Collects findings.  A figure that is no number fails."""

    def __init__(self, samples=0):
        """samples: where they may be few, shares are judged by how many."""
        self.figures, self.failures, self.samples = [], [], samples

    def _note(self, ok, text):
        self.figures.append(text)
        if not ok:
            self.failures.append(text)
        return ok

    def near(self, what, value, want, tolerance):
        if self.samples and 0 < want < 1:
            chance = math.sqrt(want * (1 - want) / self.samples)
            tolerance = round(max(tolerance, 5 * chance), 3)
        return self._note(abs(value - want) <= tolerance,
                          f"{what} {value:.3f} (want {want:.3f} +-{tolerance})")

    def least(self, what, value, want):
        return self._note(value >= want, f"{what} {value:.4g} (at least {want})")

    def most(self, what, value, want):
        return self._note(value <= want, f"{what} {value:.4g} (at most {want})")

    def zero(self, what, value):
        return self._note(value == 0, f"{what} {value} (want 0)")

    def true(self, what, ok):
        self._note(bool(ok), f"{what}: {'yes' if ok else 'NO'}")
        return bool(ok)

    @property
    def ok(self):
        return not self.failures


def share_of(profile, part, whole):
    """Of the samples with a frame `whole`, those with `part`."""
    sub = profile.only(lambda s: has(s, whole))
    return sub.share(part) if sub.total else math.nan


def busy(c, p, main=chunk("busy.lua")):
    """lib/busy.lua: main > update > hot (2/3), main > draw > hot (1/3)."""
    hot, update, draw = (fn(n, line, "busy.lua") for n, line in
                         (("hot", 3), ("update", 4), ("draw", 5)))
    c.near("update", p.share(update), 2 / 3, 0.03)
    c.near("draw", p.share(draw), 1 / 3, 0.03)
    def whole(s):
        lua = lua_frames(s)[-3:]
        return (len(lua) == 3 and re.search(main, lua[0])
                and re.search(f"{update}|{draw}", lua[1]) and re.search(hot, lua[2]))
    c.least("main > update or draw > hot", p.part(lambda s: bool(whole(s))), 0.97)


_MAIN = "_start;main;lua_pcall;main chunk (/x/busy.lua);"
BUSY_IDEAL = (_MAIN + "update (/x/busy.lua:4);hot (/x/busy.lua:3)_[N] 667\n"
              + _MAIN + "draw (/x/busy.lua:5);hot (/x/busy.lua:3)_[N] 333\n")


# ---- running ----

ACCOUNT = re.compile(
    r"(?P<samples>\d+) samples? of (?P<sent>\d+) sent, (?P<lost>\d+) lost"
    r"(?: \([^)]*\))?(?:, (?P<filtered>\d+) outside zone .*?)?"
    r"(?:, (?P<of_vm>\d+) outside the VM)?(?:, (?P<of_pause>\d+) in a pause)?"
    r", (?P<partial>\d+) partial"
    r".*; (?P<rate>[\d.]+) of [\d.]+ Hz for (?P<seconds>[\d.]+) s.*"
    r"; (?P<vms>\d+) VMs?.*, (?P<threads>\d+) threads?.*own CPU (?P<cpu>[\d.]+)%")


def account(stderr):
    """The closing line as numbers; {} when there is none."""
    m = None
    for line in stderr.splitlines():
        m = ACCOUNT.search(line) or m
    return {k: float(v or 0) for k, v in m.groupdict().items()} if m else {}


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rsplit(b") ", 1)[1][:1].decode()
    except OSError:
        return ""


def cpu_of(pid):
    """CPU seconds of a process so far; proc(5), utime and stime."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            fields = f.read().rsplit(b") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return math.nan


def run_time_of(pid):
    """Each thread's seconds on a CPU so far, by thread id."""
    out = {}
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
                out[int(tid)] = int(f.read().split()[0]) / 1e9
    except OSError:
        pass
    return out


def until(test, seconds):
    """Waits for it to be true; false: it did not become so in time."""
    end = time.time() + seconds
    while not test():
        if time.time() > end:
            return False
        time.sleep(0.01)
    return True


class Run:
    """One target of a case, and what tecs-attach said about it."""

    def __init__(self, tools, folder, env, secs):
        self.tools, self.folder, self.secs = tools, folder, secs
        self.out = tempfile.mkdtemp(prefix="case.")
        self.env = dict(os.environ, CASE_OUT=self.out, CASE_SECS=str(secs))
        if not tools.outside:
            self.env["CASE_PRELOAD"] = tools.agent
        self.env.update(env)
        self.pid, self.stderr, self.status, self.count = 0, "", None, 0

    def start(self):
        r = subprocess.run([os.path.join(self.folder, "run.sh")], env=self.env,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=60, text=True)
        if r.returncode or not r.stdout.strip().isdigit():
            raise RuntimeError(f"target did not start: {r.stderr[-300:]}")
        self.pid = int(r.stdout)
        return self.pid

    def path(self, name=None):
        self.count += name is None
        return os.path.join(self.out, name or f"profile{self.count}.folded")

    def attach(self, *options, pid=None, duration=None, rate=999, out=None,
               timeout=None):
        """Samples; returns the profile.  stderr and status are kept."""
        path = out or self.path()
        args = [self.tools.attach, "-F", str(rate), "-o", path, *options]
        if self.tools.outside:
            args.append("--no-agent")
        if duration:
            args += ["-d", str(duration)]
        args.append(str(pid or self.pid))
        before = cpu_of(self.pid)
        r = subprocess.run(args, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True, errors="replace",
                           timeout=timeout or (duration or 60) + 30)
        self.cpu = cpu_of(self.pid) - before
        self.stderr, self.status, self.stdout = r.stderr, r.returncode, r.stdout
        self.last = path
        return Profile.read(path) if os.path.isfile(path) else Profile()

    def trace(self, *options, pid=None, until=None, timeout=60):
        """The table of trace aborts; stderr and status are kept.  until: a
        function that says when to end (Ctrl-C)."""
        path = self.path("aborts.csv")
        p = subprocess.Popen([self.tools.attach, "trace", "-o", path, *options,
                              str(pid or self.pid)], stderr=subprocess.PIPE,
                             text=True, errors="replace")
        end = time.time() + timeout
        while until and time.time() < end and p.poll() is None and not until():
            time.sleep(0.05)
        if until:
            p.send_signal(signal.SIGINT)
        self.stderr = p.communicate(timeout=timeout)[1]
        self.status = p.returncode
        return Table.read(path) if os.path.isfile(path) else None

    def account(self):
        return account(self.stderr)

    def begin(self, *options, pid=None, rate=999):
        """A session beside this one, to be ended by finish()."""
        path = self.path()
        args = [self.tools.attach, "-F", str(rate), "-o", path, *options]
        if self.tools.outside:
            args.append("--no-agent")
        self.last = path
        return subprocess.Popen(args + [str(pid or self.pid)], text=True,
                                stderr=subprocess.PIPE, errors="replace")

    def finish(self, process, signo=None, timeout=30):
        """The profile of one that ends, or is made to; stderr, status are kept."""
        if signo:
            process.send_signal(signo)
        self.stderr = process.communicate(timeout=timeout)[1]
        self.status = process.returncode
        return Profile.read(self.last) if os.path.isfile(self.last) else Profile()

    def alive(self):
        return state_of(self.pid) not in ("", "Z")

    def truth(self):
        """Lines `truth share NAME X`, and the rest; waits for the end."""
        end = time.time() + self.secs + 20
        while self.alive() and time.time() < end:
            time.sleep(0.1)
        out = {}
        for line in self.target_out().splitlines():
            words = line.split()
            if words[:2] == ["truth", "share"]:
                out[words[2]] = float(words[3])
            elif words[:1] == ["truth"] and len(words) > 2:
                out[words[1]] = words[2]
        return out

    def target_out(self):
        with open(os.path.join(self.out, "target.out"), errors="replace") as f:
            return f.read()

    def children(self, pid=None):
        found = []
        for task in os.listdir("/proc"):
            if task.isdigit():
                try:
                    with open(f"/proc/{task}/stat", "rb") as f:
                        ppid = int(f.read().rsplit(b") ", 1)[1].split()[1])
                except OSError:
                    continue
                if ppid == (pid or self.pid):
                    found.append(int(task))
        return found

    def end(self):
        pids = self.children() + [self.pid] if self.pid else []
        for pid in pids:
            try:
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.out, ignore_errors=True)


def wrong_tables(table):
    """Tables that no check may accept."""
    def made(records):
        lines = [",".join('"' + f.replace('"', '""') + '"' for f in r)
                 for r in [table.head] + records]
        return Table("".join(line + "\r\n" for line in lines).encode())
    rows = table.records
    yield "no rows", made([])
    if not rows:
        return
    yield "a place missing", made([r for r in rows if r[3] != rows[0][3]])
    yield "a row invented", made(rows + [["warn", "1", "NYI: bytecode TNEW",
                                          "nowhere.lua:1", ""]])
    other = [list(r) for r in rows]
    for r in other:
        r[3] += "0" if r[3] == rows[0][3] else ""
    yield "a place at another line", made(other)


def timed_truth(tools, folder, secs, luajit_options=()):
    """Shares of the calls in the target's main loop, by its own CPU clock: the
    target's source with a clock around each call."""
    here = os.path.dirname(os.path.abspath(__file__))
    env = dict(os.environ, CASE_SECS=str(secs),
               LUA_PATH=os.path.join(folder, "..", "lib", "?.lua") + ";;")
    r = subprocess.run([tools.luajit, *luajit_options,
                        os.path.join(here, "timed.lua"),
                        os.path.join(folder, "t.lua")],
                       env=env, stdout=subprocess.PIPE, text=True, timeout=60)
    return {w[2]: float(w[3]) for w in map(str.split, r.stdout.splitlines())
            if w[:2] == ["truth", "share"]}


def general(c, p, r, rooted=0.98):
    """What is asked of every profile."""
    a = r.account()
    c.true("collapsed format", not lint_file(r.last))
    c.true("closing line", a)
    if a:
        c.zero("samples that are not in the sum of counts",
               int(a["samples"]) - p.total)
        c.most("lost", a["lost"] / max(a["sent"], 1), 0.02)
    c.least("rooted", p.root(r"^(_start|\[thread start\])$"), rooted)
    c.zero("[unknown] in compiled code", p.count(
        lambda s: "[unknown]" in s and s[-1] == "_[N]"))
    c.most("[unknown]", p.part(lambda s: "[unknown]" in s) if p.total else 0, 0.005)

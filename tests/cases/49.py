# SPDX-License-Identifier: MIT
# Output that cannot be written, signals, closed pipes.
import os
import re
import signal
import subprocess
import time

from caselib import BUSY_IDEAL, Profile, Run, account, busy, lint_file, state_of

MODES = ["off"]
AGENT = True  # about what is written, whoever samples


def check(c, p, t):
    busy(c, p)


def more(c, tools, folder):
    r = Run(tools, folder, {"CASE_JIT": "off"}, 60)
    try:
        r.start()
        for part in (missing_folder, full, pipes, closed_stdout, existing, signals):
            part(c, tools, r)
            c.true(f"{part.__name__}: target runs", state_of(r.pid) in ("R", "S"))
    finally:
        r.end()
    launched(c, tools)


def missing_folder(c, tools, r):
    began = time.time()
    r.attach(duration=5, out="/nowhere/p.folded")
    c.most("missing folder: refused within", time.time() - began, 1)
    c.true("missing folder: status 1, names the path",
           r.status == 1 and "/nowhere/p.folded" in r.stderr)


def full(c, tools, r):
    r.attach(duration=1, out="/dev/full")
    c.true("/dev/full: status 1, the reason",
           r.status == 1 and "No space left on device" in r.stderr)


def shell(tools, r, command):
    began = time.time()
    s = subprocess.run(["sh", "-c", command, "sh", tools.attach, str(r.pid),
                        os.path.join(r.out, "status")],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       timeout=40)
    return s, time.time() - began


def pipes(c, tools, r):
    for what, reader, least in (("| head -n 1", "head -n 1", 1), ("| true", "true", 0)):
        s, took = shell(tools, r,
                        f'{{ "$1" -d 5 "$2"; echo $? >"$3"; }} | {reader}')
        with open(os.path.join(r.out, "status")) as f:
            status = f.read().strip()
        c.true(f"{what}: status 0, quiet ({status})", status == "0"
               and not re.search("pipe|SIG|kill", s.stderr, re.I))
        c.true(f"{what}: {least} lines", len(s.stdout.splitlines()) == least)
        if not least:
            c.most(f"{what}: ends within", took, 3)


def closed_stdout(c, tools, r):
    s, took = shell(tools, r, '"$1" -d 5 "$2" >&-')
    c.true(f"closed stdout: status 1 ({s.returncode}), says so",
           s.returncode == 1 and "stdout" in s.stderr)
    c.most("closed stdout: refused within", took, 1)


def existing(c, tools, r):
    path = r.path("old.folded")
    with open(path, "w") as f:
        f.write("old 1\n")
    p = r.attach("-d", "1", pid=2 ** 22 - 1, out=path)
    c.true("existing file: kept when the attach fails",
           r.status == 3 and p.text == "old 1\n")
    p = r.attach(duration=1, out=path)
    c.true("existing file: replaced when it succeeds",
           r.status == 0 and p.total > 500 and "old" not in p.text)
    c.true("existing file: nothing else in its folder",
           not [f for f in os.listdir(r.out) if f.startswith(".")])


def signals(c, tools, r):
    for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        path = r.path(signo.name + ".folded")
        s = subprocess.Popen([tools.attach, "-F", "999", "-o", path, str(r.pid)],
                             stderr=subprocess.PIPE, text=True)
        time.sleep(1.5)
        s.send_signal(signo)
        _, stderr = s.communicate(timeout=10)
        p = Profile.read(path)
        c.true(f"{signo.name}: status 0, complete ({p.total})",
               s.returncode == 0 and p.total > 700 and not lint_file(path)
               and account(stderr).get("samples") == p.total)


def launched(c, tools):
    """Ctrl-C to the whole group."""
    import tempfile
    with tempfile.TemporaryDirectory(prefix="case.") as out:
        path = os.path.join(out, "p.folded")
        env = dict(os.environ, CASE_SECS="30", TECS_AGENT_LIB=tools.agent)
        s = subprocess.Popen(
            [tools.attach, "-F", "999", "-o", path, "--", tools.luajit, "-joff", "-e",
             "local s = 0 while true do s = (s + 1) % 7 end"],
            stderr=subprocess.PIPE, text=True, env=env, start_new_session=True)
        time.sleep(2)
        os.killpg(s.pid, signal.SIGINT)
        _, stderr = s.communicate(timeout=10)
        p = Profile.read(path) if os.path.exists(path) else Profile()
        c.true(f"Ctrl-C to the group: profile written ({p.total}), status "
               f"{s.returncode}", p.total > 700 and s.returncode in (1, 130))


IDEAL = BUSY_IDEAL
TRUTH = {}

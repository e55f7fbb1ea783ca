# SPDX-License-Identifier: MIT
"""What `run` measures with: a workload that counts its work, and the two
profilers that are held against each other, each started and stopped on it."""
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import fold  # noqa: E402

ROOT = re.compile(r"^(_start|__libc_start_main|__libc_start_call_main|clone3?|"
                  r"start_thread)(@|$)")


class Failed(Exception):
    pass


def end(process, signo=signal.SIGTERM, patience=20):
    """Ends a process of ours, kindly first."""
    if process.poll() is None:
        process.send_signal(signo)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def cpu_seconds(pid):
    """Of all its threads that are alive, finer than the ticks in stat."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        total += int(text_of(f"/proc/{pid}/task/{tid}/schedstat").split()[0])
    return total / 1e9


def peak_mb(pid):
    found = re.search(r"^VmHWM:\s+(\d+) kB", text_of(f"/proc/{pid}/status"), re.M)
    return int(found[1]) / 1024 if found else None


class Workload:
    """A luajit under the agent."""

    def __init__(self, name, tools, folder, seconds):
        options = ["-joff"] if name == "interpreted" else []
        self.beats = os.path.join(folder, "beats")
        path = f"{HERE}/?.lua;{HERE}/../../demo/?.lua;;"
        self.process = subprocess.Popen(
            [tools.luajit, *options, f"{HERE}/{name}.lua", self.beats,
             str(seconds)],
            env={**os.environ, "LD_PRELOAD": tools.agent, "LUA_PATH": path},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.name = name

    def await_beats(self, patience=10):
        """Until it counts; half a second more for the JIT compiler."""
        give_up = time.monotonic() + patience
        while not (os.path.exists(self.beats) and os.path.getsize(self.beats)):
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise Failed(f"{self.name}: the workload does not work")
            time.sleep(0.02)
        time.sleep(0.5)

    def rates(self, windows):
        """Of each window (start, end): work by wall time and by CPU time, and
        the share of a CPU that it had."""
        rows = [tuple(map(float, line.split()))
                for line in text_of(self.beats).split("\n")[:-1]]
        found = []
        for start, stop in windows:
            inside = [row for row in rows if start <= row[0] <= stop]
            if len(inside) < 3:
                raise Failed(f"{self.name}: no beat in a window; is the machine "
                             "too busy?")
            wall, cpu, work = (b - a for a, b in zip(inside[0], inside[-1]))
            found.append({"wall": work / wall, "cpu": work / cpu,
                          "share": cpu / wall})
        return found

    def close(self):
        end(self.process)


class Profiler:
    """Of one window: start, mark the window's begin and end, stop."""

    def await_sampling(self, patience=10):
        give_up = time.monotonic() + patience
        while not self.samples():
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise Failed(f"{self.name} does not sample: {self.said()}")
            time.sleep(0.02)
        time.sleep(0.3)

    def begin(self):
        self.at, self.cpu = time.monotonic(), cpu_seconds(self.process.pid)

    def finish(self):
        try:
            used = cpu_seconds(self.process.pid) - self.cpu
            self.seconds = time.monotonic() - self.at
            self.result = {"cpu": used / self.seconds,
                           "memory_mb": peak_mb(self.process.pid)}
        except OSError:
            raise Failed(f"{self.name} ended early: {self.said()}") from None

    def said(self):
        return text_of(self.log).strip()

    def spawn(self, argv):
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def close(self):
        end(self.process)


class Ours(Profiler):
    name = "tecs-attach"

    def __init__(self, tools, folder, hz, pid):
        self.out = os.path.join(folder, "ours.folded")
        self.log = os.path.join(folder, "ours.log")
        self.spawn([tools.attach, "-v", "-F", str(hz), "-o", self.out, str(pid)])

    def samples(self):
        return " every " in self.said()

    def stop(self):
        end(self.process)
        text = self.said()
        if self.process.returncode:
            raise Failed(f"tecs-attach: {text}")
        self.result.update(self.account(text), **self.stacks())
        if self.result.pop("seconds") < self.seconds:
            raise Failed(f"tecs-attach began too late: {text}")

    @staticmethod
    def account(text):
        def number(pattern):
            found = re.search(pattern, text)
            if not found:
                raise Failed(f"tecs-attach does not say {pattern!r}: {text}")
            return float(found[1])
        seconds = number(r"Hz for ([\d.]+) s")
        return {
            "seconds": seconds,
            "rate": number(r"(\d+) samples? of") / seconds,
            "lost": number(r"sent, (\d+) lost"),
            "ticks": number(r"; ([\d.]+) of [\d.]+ Hz") /
                     number(r"; [\d.]+ of ([\d.]+) Hz"),
            "bytes": number(r"\((\d+) a sample\)"),
            "handler_p50_us": number(r"handler ([\d.]+) us"),
            "handler_p99_us": number(r"median\), ([\d.]+) us"),
            "memory_mb": number(r"own memory ([\d.]+) MB"),
        }

    def stacks(self):
        profile = fold.Profile.read(self.out)
        return {
            "samples": profile.total,
            "rooted": profile.count(
                lambda s: fold.has(s, r"^(_start|\[thread start\])$")
                and not fold.has(s, r"^\[partial\]$")),
            "lua": profile.count(lambda s: any(map(fold.is_lua, s))),
        }


class Perf(Profiler):
    name = "perf"

    def __init__(self, tools, folder, hz, pid):
        self.data = os.path.join(folder, "perf.data")
        self.log = os.path.join(folder, "perf.log")
        self.spawn(["perf", "record", "-F", str(hz), "-g", "--call-graph",
                    "dwarf", "-p", str(pid), "-o", self.data])

    def samples(self):
        """Its buffer reaches the file in pieces of this size about."""
        return os.path.exists(self.data) and os.path.getsize(self.data) > 1 << 17

    def stop(self):
        end(self.process, signal.SIGINT)
        found = re.search(r"\((\d+) samples\)", self.said())
        if not found:
            raise Failed(f"perf record: {self.said()}")
        self.result["bytes"] = os.path.getsize(self.data) / int(found[1])

    def stacks(self):
        """Of the last window only: perf script is slow."""
        argv = ["perf", "script", "--no-inline", "-i", self.data, "-F",
                "time,ip,sym,dso"]
        env = {**os.environ, "LC_ALL": "C", "DEBUGINFOD_URLS": ""}
        before = os.times()
        try:
            out = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL,
                                 capture_output=True, timeout=60, check=True,
                                 encoding="utf-8", errors="replace").stdout
        except subprocess.SubprocessError as e:
            raise Failed(f"perf script: {e}") from None
        after = os.times()
        used = (after.children_user + after.children_system -
                before.children_user - before.children_system)
        return self.count(out, used)

    @staticmethod
    def count(out, used):
        times, rooted, lua = [], 0, 0
        for sample in out.split("\n\n"):
            head, *frames = sample.strip().split("\n")
            if not re.fullmatch(r"[\d.]+:", head.strip()):
                continue
            times.append(float(head.strip()[:-1]))
            # "\t  ip symbol (file)"
            pairs = [f.split(None, 1)[1].rpartition(" (") for f in frames]
            rooted += bool(pairs and ROOT.match(pairs[-1][0]))
            lua += any(fold.is_lua(symbol) or
                       re.search(r"/perf-\d+\.map", file) and symbol[0] != "["
                       for symbol, _, file in pairs)
        if len(times) < 2:
            raise Failed("perf script shows no samples")
        return {"samples": len(times), "rooted": rooted, "lua": lua,
                "rate": (len(times) - 1) / (times[-1] - times[0]),
                "script_us": 1e6 * used / len(times)}


def why_no_perf(folder, hz):
    """What keeps perf from recording a process of this user; None: nothing."""
    log = os.path.join(folder, "try.log")
    argv = ["perf", "record", "-F", str(hz), "-g", "--call-graph", "dwarf", "-p",
            str(os.getpid()), "-o", os.path.join(folder, "try.data"), "--",
            "sleep", "0.1"]
    try:
        with open(log, "w", encoding="utf-8") as f:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=f,
                                  stderr=f, timeout=20, check=False)
    except FileNotFoundError:
        return "it is missing: apt-get install linux-perf"
    except subprocess.TimeoutExpired:
        return "perf record hangs"
    if done.returncode == 0:
        return None
    said = " ".join(text_of(log).split())[:200]
    paranoid = text_of("/proc/sys/kernel/perf_event_paranoid").strip()
    return f"kernel.perf_event_paranoid is {paranoid}; perf says: {said}"

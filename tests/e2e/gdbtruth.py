# SPDX-License-Identifier: MIT
"""usage: gdbtruth.py FROZEN PID ROUNDS

Holds stacks against gdb's, of the very same state: the process is stopped, gdb
walks its main thread, then a tick that was sent meanwhile is the first thing it
meets when it goes on (frozen.c).  Compared is where gdb reaches the program's
entry, on a stack without compiled Lua; frame by frame, by address.  (Where the
VM's assembly has moved rsp, gdb takes data for return addresses, and may find
the chain again further out: not compared if one of them is no code.)  Prints
`states N same N comparable N equal N whole N` and what differs.
"""
import os
import random
import signal
import struct
import subprocess
import sys
import time

GDB = r"""
import gdb
def walk():
    f = gdb.newest_frame()
    print("at %x %x" % (f.pc(), int(f.read_register("rsp"))))
    try:
        while f is not None and f.is_valid():
            if f.type() != gdb.INLINE_FRAME:
                print("frame %x %s" % (f.pc(), f.name()))
            f = f.older()
    except gdb.error as e:
        print("note", e)
"""


class Gdb:
    def __init__(self):
        self.p = subprocess.Popen(["gdb", "-q", "-nx"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, bufsize=1)
        self.tell("set pagination off", "set confirm off", "set width 0",
                  "set debuginfod enabled off", "set backtrace past-main on",
                  "set backtrace limit 400", "set python print-stack full")
        self.tell("python", *GDB.strip().splitlines(), "end")

    def tell(self, *lines):
        self.p.stdin.write("\n".join(lines) + "\n")
        self.p.stdin.flush()

    def until(self, mark):
        self.tell(f"echo \\n{mark}\\n")
        out = []
        while True:
            line = self.p.stdout.readline()
            if not line:
                raise RuntimeError("gdb ended: " + "".join(out[-5:]))
            if line.strip() == mark:
                return out
            out.append(line.replace("(gdb)", "").strip())

    def close(self):
        self.tell("quit")
        self.p.stdin.close()
        self.p.wait()


def state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(") ")[2][0]


def await_state(pid, letters):
    for _ in range(5000):
        if state(pid) in letters:
            return
        time.sleep(0.001)
    raise RuntimeError(f"state {state(pid)}, not {letters}")


def entry_of(pid):
    with open(f"/proc/{pid}/auxv", "rb") as f:
        data = f.read()
    pairs = struct.iter_unpack("<QQ", data[:len(data) // 16 * 16])
    return next(v for k, v in pairs if k == 9)


def file_code(pid):
    """Is an address in a file's code, or the vdso's?"""
    areas = []
    with open(f"/proc/{pid}/maps") as f:
        for line in f:
            w = line.split()
            if "x" in w[1] and len(w) > 5:
                areas.append([int(x, 16) for x in w[0].split("-")])
    return lambda pc: any(a <= pc < b for a, b in areas)


def walk(lines):
    at, frames = None, []
    for line in lines:
        w = line.split()
        if w[:1] == ["at"]:
            at = [int(x, 16) for x in w[1:3]] + w[3:]
        elif w[:1] == ["frame"]:
            frames.append(w[1:])
    return at, frames


def one(gdb, ours, pid):
    os.kill(pid, signal.SIGSTOP)
    await_state(pid, "T")
    gdb.tell(f"attach {pid}")
    gdb.until("attached")
    gdb.tell("python walk()")
    theirs = walk(gdb.until("walked"))
    os.kill(pid, signal.SIGSTOP)  # it stays where it is when gdb lets go
    gdb.tell("detach")
    gdb.until("detached")
    await_state(pid, "T")
    ours.stdin.write("tick\n")
    ours.stdin.flush()
    if ours.stdout.readline().strip() != "sent":
        raise RuntimeError("no tick was sent")
    os.kill(pid, signal.SIGCONT)
    lines = []
    while True:
        line = ours.stdout.readline().strip()
        if line == "end":
            break
        if not line:
            raise RuntimeError("no answer")
        lines.append(line)
    return theirs, walk(lines)


def same_frames(theirs, ours):
    if len(theirs) != len(ours):
        return False
    return all(int(t[0], 16) - int(o[1], 16) in (0, 1)
               for t, o in zip(theirs, ours))


def main():
    frozen, pid, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    count = dict.fromkeys(("states", "same", "comparable", "equal", "whole"), 0)
    gdb = Gdb()
    ours = subprocess.Popen([frozen, str(pid)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, bufsize=1)
    entry = entry_of(pid)
    try:
        for _ in range(rounds):
            time.sleep(random.uniform(0.01, 0.06))
            (at, theirs), (here, mine) = one(gdb, ours, pid)
            count["states"] += 1
            if not at or not here or at[:2] != here[:2]:
                continue
            count["same"] += 1
            count["whole"] += here[2] == "entry"
            in_file = file_code(pid)
            pcs = [int(f[0], 16) for f in theirs] + [int(f[1], 16) for f in mine]
            last = int(theirs[-1][0], 16) if theirs else 0
            if not entry <= last < entry + 64 or not all(map(in_file, pcs)):
                continue
            count["comparable"] += 1
            if same_frames(theirs, mine):
                count["equal"] += 1
            else:
                print("differs: gdb", theirs)
                print("differs: ours", here, mine)
    finally:
        ours.stdin.close()
        ours.wait()
        gdb.close()
    print(" ".join(f"{k} {v}" for k, v in count.items()))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""segment.py KIND SECONDS: a process that holds a segment as the agent would,
but one that no collector may believe."""
import fcntl
import mmap
import os
import struct
import sys
import time

MAGIC = 0x1A47455353434554


def header(major):
    """struct tecs_header up to segment_size; include/tecs/abi.h."""
    return struct.pack("<QIHHHHIQ", MAGIC, 0x01020304, 8, major, major, 0, 4096,
                       1 << 20)


kind = sys.argv[1]
fd = os.memfd_create("tecs-agent", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.fchmod(fd, 0o600)
if kind == "version":
    os.write(fd, header(99))
else:
    os.write(fd, bytes(range(256)) * 16)
os.ftruncate(fd, 1 << 20)
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2  # fcntl(2)
fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
mapped = mmap.mmap(fd, 1 << 20)  # a segment is mapped where it is used
print("ready", flush=True)
time.sleep(float(sys.argv[2]))
print("truth survived 1", flush=True)

"""How does a test end the processes that it starts, and see that they are gone?"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import stat
import struct
import subprocess
import sys
import termios
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """For ``preexec_fn``: a process that never outlives the tests, however they end (on Linux)."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        os._exit(1)


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as status:
            return status.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children_of(parent: int) -> list[int]:
    """Those that live, of every thread: a pool's children are not all started by the main one."""
    pids: list[int] = []
    for thread in Path(f"/proc/{parent}/task").iterdir():
        pids += map(int, (thread / "children").read_text().split())
    return [pid for pid in pids if is_alive(pid)]  # one that has ended is there until its parent looks


def unread_by(pid: int) -> int:
    """Bytes that lie in pipes before a process (a frozen one): written to it, and not read by it."""
    unread = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if not stat.S_ISFIFO(entry.stat().st_mode):
                continue
            flags = int(Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text().split("flags:")[1].split()[0], 8)
            if flags & os.O_ACCMODE != os.O_RDONLY:
                continue
            own = os.open(entry, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:  # closed meanwhile
            continue
        try:
            unread += struct.unpack("i", fcntl.ioctl(own, termios.FIONREAD, b"\0" * 4))[0]
        finally:
            os.close(own)
    return unread


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and its whole group at once, frozen ones too, and waits for it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGCONT)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)

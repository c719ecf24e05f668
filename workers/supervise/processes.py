"""Which processes are ours, and how is one ended that nobody waits for?"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: Set for every child and so for all of theirs: names the data directory that they belong to.
MARK: Final = "SLUICEGATE_SUPERVISED"

_PROC: Final = Path("/proc")


def born_at(pid: int) -> str | None:
    """When a process was started, in a form that tells a number used again apart."""
    try:
        # The name in parentheses may hold anything; the 20th word after it is the start in clock ticks.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        if _PROC.is_dir():
            return None
    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None


def find_marked(data_dir: Path) -> list[int]:
    """Processes of this user that carry the mark of ``data_dir``, without this one; none without /proc."""
    wanted = f"{MARK}={data_dir}".encode()
    found = []
    for entry in _PROC.glob("[0-9]*"):
        pid = int(entry.name)
        if pid == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0") and born_at(pid) is not None:
                found.append(pid)
        except OSError:
            continue  # another user's, or gone
    return found


def end_all(pids: Iterable[int], *, patience_s: float) -> None:
    """Asks each to stop, waits, then kills what is left. For processes that are not children of this one."""
    waiting = {pid: born for pid in pids if (born := born_at(pid)) is not None}
    _send_all(waiting, signal.SIGTERM)
    give_up_at = time.monotonic() + patience_s
    while waiting and time.monotonic() < give_up_at:
        time.sleep(0.05)
        waiting = {pid: born for pid, born in waiting.items() if born_at(pid) == born}
    _send_all(waiting, signal.SIGKILL)
    give_up_at = time.monotonic() + 2.0
    while time.monotonic() < give_up_at and any(born_at(pid) == born for pid, born in waiting.items()):
        time.sleep(0.02)


def _send_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # ended by itself

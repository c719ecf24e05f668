"""Jobs whose only purpose is to show what the gate does: echo, sleep, fail, append, die."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import shared_task

from .places import PathRefused, data_directory, resolve_in

#: Longest sleep of one drill, in seconds.
MAX_SECONDS = 3600.0
#: Longest text of one append, in characters, and largest file that drills may grow, in bytes.
MAX_TEXT = 65_536
MAX_FILE_BYTES = 64 * 1024 * 1024


class DrillFailed(Exception):
    """A drill failed, as it was asked to."""


@shared_task(name="drill.echo")
def echo(x: Any = None) -> Any:
    return x


@shared_task(name="drill.sleep")
def sleep(seconds: float = 1.0, ballast: str = "") -> float:
    """Take some time. ``ballast`` only makes the message larger."""
    return _sleep(seconds)


@shared_task(name="drill.fail")
def fail(message: str = "asked to fail") -> None:
    raise DrillFailed(message)


@shared_task(name="drill.append")
def append(name: str, text: str, seconds: float = 0.0) -> int:
    """Add one line to a file in the data directory, then take ``seconds`` more.

    The line is there before the sleep, in one write: what a killed job did can be counted.
    """
    if len(str(text)) > MAX_TEXT:
        raise ValueError(f"the text has {len(str(text))} characters; at most {MAX_TEXT} are taken")
    line = str(text) if str(text).endswith("\n") else f"{text}\n"
    written = _append_line(data_directory(), name, line.encode())
    _sleep(seconds)
    return written


@shared_task(name="drill.die")
def die() -> None:
    """Kill the process that runs this job, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def _sleep(seconds: float) -> float:
    if not 0 <= seconds <= MAX_SECONDS:  # false for NaN too
        raise ValueError(f"seconds is {seconds}; it must be between 0 and {MAX_SECONDS:.0f}")
    time.sleep(seconds)
    return seconds


def _append_line(directory: Path, name: str, line: bytes) -> int:
    """Append to a file that a drill made; the installation's own files beside it are never touched.

    Each drill file has an empty twin in ``drills/`` that says who made it. The twin comes first, so that a
    process killed between the two can go on the next time.
    """
    path = resolve_in(directory, name)
    made = directory / "drills" / name
    if not made.exists():
        if path.exists():
            raise PathRefused(f"{name!r} exists and was not made by a drill")
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    try:
        if os.fstat(handle).st_size + len(line) > MAX_FILE_BYTES:
            raise ValueError(f"{name!r} has reached {MAX_FILE_BYTES} bytes")
        return os.write(handle, line)
    finally:
        os.close(handle)

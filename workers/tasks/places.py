"""Where may a shipped job write, and which downstream is its own?

Read from the environment at the moment of use: a worker, a test and the demonstration each have theirs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

#: One plain file name: no separator, no leading dot, and none of the endings that a database, a key
#: file or an append-only file of the installation has.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(\.(txt|log|jsonl|csv|png|jpg|webp))?", re.ASCII)


class PathRefused(ValueError):
    """A job named a file that it may not write."""


def are_drills_on() -> bool:
    return os.environ.get("SLUICEGATE_DRILLS", "") == "1"


def data_directory() -> Path:
    return Path(os.environ.get("SLUICEGATE_DATA_DIR") or "var").resolve()


def sink_url() -> str | None:
    """The demonstration's own HTTP sink on loopback, where there is one."""
    return os.environ.get("SLUICEGATE_SINK_URL") or None


def resolve_in(directory: Path, name: str) -> Path:
    """The path of a file called ``name`` directly in ``directory``.

    Raises:
        PathRefused: the name is more than a plain file name, or the place is a link.
    """
    if not isinstance(name, str) or not _FILE_NAME.fullmatch(name):
        raise PathRefused(
            f"{str(name)[:80]!r} is not a plain file name; use letters, digits, - and _, and one of "
            "the endings .txt .log .jsonl .csv .png .jpg .webp, or none"
        )
    path = directory / name
    if path.is_symlink():
        raise PathRefused(f"{name!r} is a symbolic link")
    return path

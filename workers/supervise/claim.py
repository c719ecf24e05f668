"""Is anybody else running on this data directory? One supervisor at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class AlreadyClaimed(RuntimeError):
    """Another supervisor runs on this data directory."""


class Claim:
    """A lock that the system drops with this process, however it ends. Children do not inherit it."""

    def __init__(self, data_dir: Path) -> None:
        self._handle = os.open(data_dir / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._handle)
            raise AlreadyClaimed(
                f"already running on {data_dir} (process {holder}); stop that one, or name another "
                "directory with SLUICEGATE_DATA_DIR"
            ) from None
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        os.ftruncate(self._handle, 0)
        os.close(self._handle)

"""Was our parent, a `make`, asked to stop without us hearing of it?

make does not pass a SIGINT that only it received on to its recipe: it puts its own handler away and waits
for the recipe to end. That can be seen in /proc, and a parent that is gone can be seen anywhere.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

_MAKES: Final = ("make", "gmake", "gnumake")


class ParentWatch:
    """Watches only a parent that is a make; any other may well end before us (nohup, a closed shell)."""

    def __init__(self) -> None:
        self._pid = os.getppid()
        self._is_make = _name_of(self._pid) in _MAKES
        self._caught_at_first = self._is_make and _catches_interrupt(self._pid)

    def wants_stop(self) -> bool:
        if not self._is_make:
            return False
        if os.getppid() != self._pid:
            return True
        return self._caught_at_first and not _catches_interrupt(self._pid)


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _catches_interrupt(pid: int) -> bool:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) & (1 << (signal.SIGINT - 1)))
    except (OSError, ValueError):
        pass
    return True  # cannot be told: not a reason to stop

"""What did a supervisor leave that was killed? Found by its records and by the mark, and ended."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from .processes import born_at, end_all, find_marked

#: The server comes last, so that the others can still settle what they hold.
SERVER: Final = "redis"
PATIENCE_S: Final = 5.0


class Records:
    """The children of one data directory, on disk: name, process id and time of birth of each."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._path = data_dir / "run" / "children.json"
        self._path.parent.mkdir(exist_ok=True)
        self._rows: dict[str, tuple[int, str | None]] = {}

    def note(self, name: str, pid: int) -> None:
        self._rows[name] = (pid, born_at(pid))
        self._write()

    def forget(self, name: str) -> None:
        self._rows.pop(name, None)
        self._write()

    def end_leftovers(self) -> list[str]:
        """Ends what an earlier supervisor left; gives the names of what was found."""
        found = {
            name: pid
            for name, (pid, born) in self._read().items()
            if born is not None and born_at(pid) == born
        }
        server = found.get(SERVER)
        marked = find_marked(self._data_dir)
        others = {*found.values(), *marked} - {server}
        end_all(others, patience_s=PATIENCE_S)
        if server is not None:
            end_all([server], patience_s=PATIENCE_S)
        unnamed = len(others - set(found.values()))
        return [*found, *([f"{unnamed} of their processes"] if unnamed else [])]

    def _read(self) -> dict[str, tuple[int, str | None]]:
        try:
            rows = json.loads(self._path.read_text())
            return {str(name): (int(pid), born) for name, (pid, born) in rows.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}  # none yet, or cut short by a crash: the mark still finds them

    def _write(self) -> None:
        """On a full disk the older ones stay: a birth ends no stranger, and the mark finds who is missing."""
        draft = self._path.with_suffix(".draft")
        with suppress(OSError):
            draft.write_text(json.dumps(self._rows))
            os.replace(draft, self._path)

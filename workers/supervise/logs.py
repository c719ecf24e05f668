"""Where do a child's lines go? To a file of bounded size, and warnings to the console."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .greeting import shown

MAX_BYTES: Final = 5 * 1024 * 1024
KEPT_FILES: Final = 3
#: Lines of one child on the console in one second; the rest is counted.
SHOWN_PER_S: Final = 3
LINE_MAX: Final = 300

_WARNING = re.compile(r"\b(WARNING|ERROR|CRITICAL)\b")
#: A job that fails is the installation's daily bread: the room shows it, the log keeps it.
_OF_JOBS = "celery.app.trace"
#: An endless line without its end is cut here, so that a child cannot fill our memory.
_PARTIAL_MAX: Final = 64 * 1024


class RotatingFile:
    """Appends; at ``MAX_BYTES`` the file becomes .1, .1 becomes .2, and the oldest goes."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT_FILES) -> None:
        self.path = path
        self._max_bytes, self._kept = max_bytes, kept
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)

    def write(self, content: bytes) -> None:
        if self._file.closed:  # a disk that was full when the next one should begin
            self._file = self.path.open("ab", buffering=0)
        if self._file.tell() + len(content) > self._max_bytes and self._file.tell():
            self._rotate()
        self._file.write(content)

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._kept - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            if older.exists():
                older.replace(self.path.with_name(f"{self.path.name}.{number + 1}"))
        self.path.replace(self.path.with_name(f"{self.path.name}.1"))
        self._file = self.path.open("ab", buffering=0)


class ChildLog:
    """One child's output: all of it to its file, warnings to ``say`` with the child's name."""

    def __init__(
        self, name: str, path: Path, *, say: Callable[[str], None], shows_warnings: bool = True
    ) -> None:
        self.name = name
        self.last_line = ""
        self._file = RotatingFile(path)
        self._say = say
        self._shows_warnings = shows_warnings
        self._partial = b""
        self._unkept = False
        self._second, self._shown, self._held_back = 0.0, 0, 0

    @property
    def path(self) -> Path:
        return self._file.path

    def feed(self, content: bytes) -> None:
        self._keep(content)
        *lines, self._partial = (self._partial + content).split(b"\n")
        if len(self._partial) > _PARTIAL_MAX:
            lines.append(self._partial)
            self._partial = b""
        for line in lines:
            text = line.decode(errors="replace").rstrip()
            if text:
                self.last_line = text
                if self._shows_warnings and _WARNING.search(text) and _OF_JOBS not in text:
                    self._show(text)

    def close(self) -> None:
        self._file.close()

    def _keep(self, content: bytes) -> None:
        """A full disk costs lines of a log, and no process. Said once, and once when it is over."""
        try:
            self._file.write(content)
        except OSError as exc:
            if not self._unkept:
                self._say(f"{self.name} | its log is not kept: {exc.strerror}, {shown(self.path)}")
            self._unkept = True
            return
        if self._unkept:
            self._say(f"{self.name} | its log is kept again")
        self._unkept = False

    def _show(self, text: str) -> None:
        now = time.monotonic()
        if now - self._second >= 1.0:
            if self._held_back:
                self._say(f"{self.name} | ... {self._held_back} more such lines in {shown(self.path)}")
            self._second, self._shown, self._held_back = now, 0, 0
        if self._shown >= SHOWN_PER_S:
            self._held_back += 1
            return
        self._shown += 1
        # A log line may quote what a stranger sent: no control characters reach the terminal.
        printable = "".join(
            "?" if unicodedata.category(sign).startswith("C") else sign for sign in text[:LINE_MAX]
        )
        self._say(f"{self.name} | {printable}")

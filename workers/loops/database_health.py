"""Does the database serve the monitor, and since when not? Told by the loops that use it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import Error

#: An attempt that takes longer is called slow: a lock that somebody holds, a disk or a server that hangs.
SLOW_AFTER_S = 3.0
READING = "reading"  # the one purpose without which nothing can be read


@dataclass(frozen=True, slots=True)
class Trouble:
    since_at_ms: int
    detail: str


class DatabaseHealth:
    """One word for all loops. Each purpose (reading, history, recording) is used by one thread."""

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        self._now_ms = now_ms or (lambda: int(time.time() * 1000))
        self._troubles: dict[str, Trouble] = {}
        self._under_way: dict[str, tuple[float, int]] = {}  # purpose -> (monotonic s, ms since the epoch)
        self._was_read = False
        self._lock = threading.Lock()

    @contextmanager
    def attempt(self, purpose: str) -> Iterator[None]:
        """Wraps one use of the database; what it raises is noted and goes on up."""
        with self._lock:
            began_ms = self._now_ms()
            self._under_way[purpose] = (time.monotonic(), began_ms)
        try:
            yield
        except Error as exc:
            with self._lock:
                known = self._troubles.get(purpose)
                since = known.since_at_ms if known else began_ms
                self._troubles[purpose] = Trouble(since, first_line(exc))
            raise
        else:
            with self._lock:
                self._troubles.pop(purpose, None)
                self._was_read = self._was_read or purpose == READING
        finally:
            with self._lock:
                self._under_way.pop(purpose, None)

    def current(self) -> dict[str, Any]:
        """``state`` is ok, away (not readable), unwritable, slow or unknown; never waits."""
        with self._lock:
            troubles = dict(self._troubles)
            now = time.monotonic()
            hung = [at_ms for began, at_ms in self._under_way.values() if now - began > SLOW_AFTER_S]
            was_read = self._was_read
        if READING in troubles:
            state, trouble = "away", troubles[READING]
        elif troubles:
            state, trouble = "unwritable", min(troubles.values(), key=lambda found: found.since_at_ms)
        elif hung:
            state, trouble = "slow", Trouble(min(hung), "it has not answered yet")
        else:
            return {"state": "ok" if was_read else "unknown", "detail": "", "since_at_ms": None}
        return {"state": state, "detail": trouble.detail, "since_at_ms": trouble.since_at_ms}


def first_line(exc: BaseException) -> str:
    """What a driver says first; the rest of it is advice for the console."""
    return (str(exc).strip() or type(exc).__name__).split("\n", 1)[0][:200]

"""What did the gate itself show while the flood ran? Highest readings of its own snapshot."""

from __future__ import annotations

import threading
import time
from typing import Any

from ..exceptions import StoreUnavailable
from ..store import Store

POLL_S = 0.1
#: Redis's memory is read at each so many readings.
MEMORY_EVERY = 5


class Watch:
    """Readings ten times a second: each is one atomic script, between two of them there may be more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_all, daemon=True)
        self._first: dict[str, Any] | None = None
        self._last: dict[str, Any] | None = None
        self._peaks: dict[str, dict[str, int]] = {}
        self._used_bytes: list[int] = []
        self.readings = 0
        self.failures = 0

    def start(self) -> None:
        self._read_once()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(5)

    def await_drained(self, limit_s: float) -> float | None:
        """Seconds until no queue holds a job that waits or runs; None if that is not so within the limit."""
        started, seen = time.monotonic(), self.readings
        while time.monotonic() - started < limit_s:
            if self._last is not None and self.readings > seen + 1:  # begun after the call
                rows = self._last["queues"].values()
                if not any(row["depth"] + row["delayed"] + row["in_flight"] for row in rows):
                    return time.monotonic() - started
            if self._stop.wait(POLL_S):
                return None
        return None

    def as_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"readings": self.readings, "failed_readings": self.failures, "queues": {}}
        if self._first is None or self._last is None:
            return document
        if self._used_bytes:
            used = self._used_bytes
            document["redis_used_bytes"] = {"before": used[0], "peak": max(used), "after": used[-1]}
        for name, row in self._last["queues"].items():
            before = self._first["queues"].get(name, {}).get("totals", {})
            gained = {
                key: value - before.get(key, 0)
                for key, value in row["totals"].items()
                if isinstance(value, int)
            }
            if name in self._peaks and (gained.get("offered") or any(self._peaks[name].values())):
                document["queues"][name] = {"peak": self._peaks[name], "gained": gained}
        return document

    def _read_all(self) -> None:
        while not self._stop.wait(POLL_S):
            self._read_once()

    def _read_once(self) -> None:
        try:
            snapshot = self._store.snapshot()
        except StoreUnavailable:
            self.failures += 1
            return
        self.readings += 1
        self._first = self._first or snapshot
        for name, row in snapshot["queues"].items():
            peaks = self._peaks.setdefault(
                name, {"depth": 0, "delayed": 0, "in_flight": 0, "bytes": 0, "cost_ms": 0}
            )
            for key in peaks:
                peaks[key] = max(peaks[key], int(row[key]))
        self._last = snapshot
        if self.readings % MEMORY_EVERY == 1:
            used = self._store.health().get("used_bytes")
            self._used_bytes += [int(used)] if used is not None else []

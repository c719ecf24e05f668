"""Which past snapshots may a rate be taken from?"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..states import TOTALS

Snapshot = Mapping[str, Any]

KEPT_MS = 70_000  # the longest window asked for is 60 s


@dataclass(slots=True)
class History:
    """Snapshots of one uninterrupted life of Redis's counters, oldest first.

    A counter or a clock that goes back means that Redis lost data: what was before can no longer be
    subtracted from what is now. It is dropped, and the loss is kept as the reason for the nulls to come.
    """

    snapshots: deque[Snapshot] = field(default_factory=deque)
    cut_at_ms: int | None = None
    cut_reason: str = ""

    def add(self, snapshot: Snapshot) -> None:
        if self.snapshots:
            reason = find_loss(self.snapshots[-1], snapshot)
            if reason:
                self.snapshots.clear()
                self.cut_at_ms, self.cut_reason = int(snapshot["now_ms"]), reason
        self.snapshots.append(snapshot)
        horizon = int(snapshot["now_ms"]) - KEPT_MS
        while len(self.snapshots) > 1 and int(self.snapshots[0]["now_ms"]) < horizon:
            self.snapshots.popleft()

    @property
    def latest(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None

    def reference(self, window_ms: int) -> Snapshot | None:
        """The snapshot nearest to one window before the latest; None if none stands near enough to it."""
        if len(self.snapshots) < 2:
            return None
        now_ms = int(self.snapshots[-1]["now_ms"])
        place = bisect_left(self.snapshots, now_ms - window_ms, key=lambda s: int(s["now_ms"]))
        around = [self.snapshots[i] for i in (place - 1, place) if 0 <= i < len(self.snapshots) - 1]
        nearest = min(around, key=lambda s: abs(now_ms - int(s["now_ms"]) - window_ms))
        span = now_ms - int(nearest["now_ms"])
        return nearest if 0.7 * window_ms <= span <= 1.6 * window_ms else None

    def within(self, window_ms: int) -> Iterator[Snapshot]:
        """The snapshots of the last window, oldest first, the latest included."""
        if not self.snapshots:
            return
        horizon = int(self.snapshots[-1]["now_ms"]) - window_ms
        yield from (s for s in self.snapshots if int(s["now_ms"]) >= horizon)

    def why_no_reference(self, window_ms: int) -> str:
        if self.cut_at_ms is not None and self.snapshots:
            since_ms = int(self.snapshots[-1]["now_ms"]) - self.cut_at_ms
            if since_ms <= 1.6 * window_ms:
                return self.cut_reason
        if len(self.snapshots) < 2:
            return "not enough samples yet"
        first_ms, last_ms = int(self.snapshots[0]["now_ms"]), int(self.snapshots[-1]["now_ms"])
        return "not enough samples yet" if last_ms - first_ms < 0.7 * window_ms else "a gap in the samples"


def find_loss(before: Snapshot, after: Snapshot) -> str:
    """Why the later snapshot cannot follow the earlier one; empty when it can."""
    if int(after["now_ms"]) < int(before["now_ms"]):
        return "Redis's clock went back"
    for name, queue in before["queues"].items():
        later = after["queues"].get(name)
        totals, later_totals = queue["totals"], later["totals"] if later else {}
        for counter in TOTALS:
            if (later_totals.get(counter) or 0) < (totals.get(counter) or 0):
                return "a counter went back: Redis lost data"
    return ""

"""Is the completion promise kept, and how fast is what it allows to fail used up? From settled jobs.

Burn rate and its windows: Google, The Site Reliability Workbook, chapter 5, "Multiwindow, Multi-Burn-Rate
Alerts". A rate of 1 uses the allowed share of failures up exactly over the promise's own period.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .reasons import explain_nulls

STEP_MS: Final = 15_000  # between two points that are kept
#: Windows by name, in ms. Each pair of a short and a long one makes one alert measure.
WINDOWS: Final[dict[str, int]] = {"5m": 300_000, "30m": 1_800_000, "1h": 3_600_000, "6h": 21_600_000}
FAST: Final = ("5m", "1h")
SLOW: Final = ("30m", "6h")
SHOWN: Final = "1h"  # the window of the attainment that is shown
LEAST_OF: Final = 10  # settled jobs; a share of fewer says nothing

Point = tuple[
    int, Mapping[str, tuple[int, int]]
]  # at ms, queue -> (promised, in_objective) since the gate began


@dataclass(slots=True)
class Promises:
    """Running counters of the last six hours, oldest first."""

    points: deque[Point] = field(default_factory=deque)

    def add(self, at_ms: int, counters: Mapping[str, tuple[int, int]]) -> None:
        """Notes the newest counters; the point before is replaced while it is nearer than a step."""
        if self.points and _went_back(self.points[-1][1], counters):
            self.points.clear()  # Redis lost data: what was before cannot be subtracted any more
        if len(self.points) > 1 and at_ms - self.points[-2][0] < STEP_MS:
            self.points.pop()
        self.points.append((at_ms, dict(counters)))
        horizon = at_ms - max(WINDOWS.values()) - STEP_MS
        while len(self.points) > 1 and self.points[1][0] <= horizon:
            self.points.popleft()

    def take_earlier(self, points: Iterable[Point]) -> None:
        """What was written down before this process began to watch."""
        first = self.points[0] if self.points else None
        for point in sorted(points, key=lambda p: p[0], reverse=True):
            if first is not None and (point[0] >= first[0] or _went_back(point[1], first[1])):
                continue
            self.points.appendleft(point)
            first = point

    def window(self, queue: str, length_ms: int) -> tuple[int, int, int] | None:
        """(promised, in objective, ms covered) of the last `length_ms`; None before two points"""
        if len(self.points) < 2:
            return None
        at_ms, newest = self.points[-1]
        place = bisect_right(self.points, at_ms - length_ms, key=lambda p: p[0])
        since_ms, earlier = self.points[max(0, place - 1)]
        promised, kept = newest.get(queue, (0, 0))
        promised_before, kept_before = earlier.get(queue, (0, 0))
        return promised - promised_before, kept - kept_before, at_ms - since_ms


def attainment(policy: Mapping[str, Any], promises: Promises, queue: str) -> dict[str, Any] | None:
    """The measured share of settled jobs that kept the promise, and its burn rates; None without one."""
    promised_s, share = policy.get("objective_s"), policy.get("objective_share")
    if promised_s is None or share is None:
        return None
    burn: dict[str, Any] = {}
    why: dict[str, str] = {}
    part: dict[str, Any] = {"objective_s": promised_s, "objective_share": share, "attained": None, "of": 0}
    for name, length_ms in WINDOWS.items():
        found = promises.window(queue, length_ms)
        burn[name], reason = burn_rate(found, share)
        if reason:
            why[name] = reason
        if name == SHOWN:
            promised, kept, covered_ms = found or (0, 0, 0)
            part["of"], part["over_s"] = promised, round(covered_ms / 1000)
            if promised > 0:
                part["attained"] = round(kept / promised, 4)
    part["burn_rate"] = {**burn, "unknown": why} if why else burn
    return explain_nulls(part, {"attained": "nothing promised has settled in the last hour"})


def burn_rate(found: tuple[int, int, int] | None, share: float) -> tuple[float | None, str]:
    """How many times faster than allowed jobs miss the promise; None with the reason."""
    if found is None:
        return None, "not watched long enough"
    promised, kept, _ = found
    if promised < LEAST_OF:
        return None, f"fewer than {LEAST_OF} have settled"
    if share >= 1:
        return None, "a promise of all leaves nothing to burn"
    return round((1 - kept / promised) / (1 - share), 2), ""


def alert_value(objective: Mapping[str, Any] | None, windows: Sequence[str]) -> float | None:
    """The burn rate that both windows are past: the long says it matters, the short that it goes on."""
    rates = [None if objective is None else objective["burn_rate"].get(name) for name in windows]
    known = [rate for rate in rates if rate is not None]
    return min(known) if len(known) == len(rates) else None


def _went_back(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> bool:
    return any(queue in after and after[queue][0] < promised for queue, (promised, _) in before.items())

"""How much work waits in a queue, how fast does it come and go, and how well is that known?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..metrics.history import History
from ..metrics.percentiles import BinValue, mean_value, sorted_bins, spread
from .allocation import Crew

ARRIVAL_WINDOW_MS = 7_000  # short enough that a burst is forgotten within 10 s
BUSY_WINDOWS_MS = ((10_000, 20), (30_000, 8))  # (window, least completions for it to be believed)
SERVICE_WINDOW_MS = 60_000
DONE = ("succeeded", "failed", "retried")  # each ends one run of a slot


@dataclass(frozen=True, slots=True)
class Load:
    """One queue's flow, in jobs and in ms of measured service."""

    name: str
    depth: int
    in_flight: int
    consumers: int
    slots: float
    age_s: float
    work_ms: float  # waiting cost, corrected to measured service time, and what is left of the running jobs
    mean_service_ms: float | None
    service_from: str  # "60 s", "ever", "estimate" or "nothing"
    service_n: int
    variation: float  # coefficient of variation of the service time
    arrivals_per_s: float | None  # jobs that became eligible: accepted for now, or due
    arrivals_n: int
    arrivals_unknown: str
    completed_per_s: float | None  # measured, only when busy throughout the window
    completed_n: int
    cost_factor: float  # measured service ms for one ms of estimated cost
    held: int = 0  # jobs that wait and that nobody is to run: their tenant is suspended
    crews: tuple[Crew, ...] = ()  # the workers that serve it, by what else they serve


def read_load(history: History, queue: str, *, bin_value: BinValue) -> Load | None:
    latest = history.latest
    if latest is None or queue not in latest["queues"]:
        return None
    now = latest["queues"][queue]
    depth, in_flight = runnable(now), int(now["in_flight"])
    slots = float(now.get("slots") or 0)
    mean_ms, source, n = mean_service(history, queue, bin_value=bin_value)
    deviation = spread(now.get("service_bins") or {}, bin_value=bin_value)
    variation = deviation / mean_ms if deviation is not None and mean_ms else 1.0
    factor = cost_factor(history, queue, mean_service_ms=mean_ms if source != "estimate" else None)
    arrivals, arrivals_n, why = arrival_rate(history, queue)
    completed, completed_n = busy_rate(history, queue)
    oldest = now.get("oldest_eligible_at_ms")
    running = min(float(in_flight), slots)
    held = max(0.0, in_flight - running)
    rest_ms = (0.5 * running + held) * (mean_ms or 0.0)
    return Load(
        name=queue,
        depth=depth,
        in_flight=in_flight,
        consumers=int(now.get("consumers") or 0),
        slots=slots,
        age_s=max(0.0, (int(latest["now_ms"]) - int(oldest)) / 1000) if oldest is not None else 0.0,
        work_ms=(float(now["cost_ms"]) - float(now.get("held_cost_ms") or 0)) * factor + rest_ms,
        mean_service_ms=mean_ms,
        service_from=source,
        service_n=n,
        variation=min(3.0, variation),
        arrivals_per_s=arrivals,
        arrivals_n=arrivals_n,
        arrivals_unknown=why,
        completed_per_s=completed,
        completed_n=completed_n,
        cost_factor=factor,
        held=int(now["depth"]) - depth,
        crews=tuple(
            Crew(frozenset(row["queues"]), float(row["slots"]))
            for row in latest.get("crews") or ()
            if queue in row["queues"]
        ),
    )


def runnable(row: Mapping[str, Any]) -> int:
    """Jobs that wait and may be run: not those of suspended tenants."""
    return max(0, int(row["depth"]) - int(row.get("held") or 0))


def mean_service(history: History, queue: str, *, bin_value: BinValue) -> tuple[float | None, str, int]:
    """(mean ms, where from, of how many): the last 60 s, else all there ever was, else the estimate."""
    latest = history.latest
    assert latest is not None
    now = latest["queues"][queue]
    bins = now.get("service_bins") or {}
    counted = sum(count for _, count in sorted_bins(bins))
    earliest = next((s for s in history.within(SERVICE_WINDOW_MS) if queue in s["queues"]), None)
    if earliest is not None and earliest is not latest:
        before = earliest["queues"][queue]
        n = int(now.get("service_n") or 0) - int(before.get("service_n") or 0)
        spent = float(now.get("service_ms_sum") or 0) - float(before.get("service_ms_sum") or 0)
        if n >= 3 and spent >= 0:
            return max(1.0, spent / n), "60 s", n
    if counted >= 3:
        mean = mean_value(bins, bin_value=bin_value)
        if mean is not None:
            return max(1.0, mean), "60 s", counted
    ever = int(now.get("service_n") or 0)
    if ever > 0:
        return max(1.0, float(now.get("service_ms_sum") or 0) / ever), "ever", ever
    if int(now["depth"]) > 0 and float(now["cost_ms"]) > 0:
        return max(1.0, float(now["cost_ms"]) / int(now["depth"])), "estimate", 0
    return None, "nothing", 0


def entered_waiting(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Jobs that became eligible, by conservation: a delayed one counts when it is due, not when accepted."""
    accepted = int(after["totals"].get("accepted") or 0) - int(before["totals"].get("accepted") or 0)
    return max(0, accepted - (int(after["delayed"]) - int(before["delayed"])))


def left_waiting(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    return max(0, entered_waiting(before, after) - (int(after["depth"]) - int(before["depth"])))


def arrival_rate(history: History, queue: str) -> tuple[float | None, int, str]:
    latest, earlier = history.latest, history.reference(ARRIVAL_WINDOW_MS)
    if latest is None or earlier is None or queue not in earlier["queues"]:
        return None, 0, history.why_no_reference(ARRIVAL_WINDOW_MS)
    span_s = (int(latest["now_ms"]) - int(earlier["now_ms"])) / 1000
    entered = entered_waiting(earlier["queues"][queue], latest["queues"][queue])
    return entered / span_s, entered, ""


def busy_rate(history: History, queue: str) -> tuple[float | None, int]:
    """Completions a second while jobs waited all the time and the slots stayed the same."""
    for window_ms, least in BUSY_WINDOWS_MS:
        earlier, latest = history.reference(window_ms), history.latest
        if earlier is None or latest is None:
            continue
        span_ms = int(latest["now_ms"]) - int(earlier["now_ms"])
        seen = [s["queues"].get(queue) for s in history.within(span_ms)]
        if any(s is None or runnable(s) == 0 for s in seen):
            continue
        if len({float(s.get("slots") or 0) for s in seen if s is not None}) != 1:
            continue
        first, last = earlier["queues"][queue]["totals"], latest["queues"][queue]["totals"]
        done = sum(int(last.get(name) or 0) - int(first.get(name) or 0) for name in DONE)
        if done >= least:
            return done / (span_ms / 1000), done
    return None, 0


def cost_factor(history: History, queue: str, *, mean_service_ms: float | None) -> float:
    """How wrong the cost estimates of the jobs started lately were; 1 while that cannot be told."""
    latest = history.latest
    earliest = next((s for s in history.within(SERVICE_WINDOW_MS) if queue in s["queues"]), None)
    if mean_service_ms is None or latest is None or earliest is None or earliest is latest:
        return 1.0
    before, now = earliest["queues"][queue], latest["queues"][queue]
    left = left_waiting(before, now)
    if left < 5 or int(now["depth"]) == 0:
        return 1.0
    mean_waiting_ms = float(now["cost_ms"]) / int(now["depth"])
    cost_left = (
        float(before["cost_ms"]) - float(now["cost_ms"]) + entered_waiting(before, now) * mean_waiting_ms
    )
    if cost_left <= 0 or mean_waiting_ms <= 0:
        return 1.0
    return min(50.0, max(0.02, mean_service_ms / (cost_left / left)))

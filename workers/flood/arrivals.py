"""Which job arrives when? Endless or not, each stream is an iterator in order of time."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .swf import SwfJob


@dataclass(frozen=True, slots=True)
class Arrival:
    """``at_s`` counts from the start of the flood."""

    at_s: float
    task: str
    queue: str
    tenant: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    cost_ms: int | None = None
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class Mix:
    """What the jobs of a flood look like: names with weights."""

    task: str
    queues: Mapping[str, float]
    tenants: Mapping[str, float]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    cost_ms: int | None = None
    deadline_s: float | None = None

    def draw(self, at_s: float, source: random.Random) -> Arrival:
        return Arrival(
            at_s,
            self.task,
            queue=draw_name(self.queues, source),
            tenant=draw_name(self.tenants, source),
            args=self.args,
            kwargs=self.kwargs,
            cost_ms=self.cost_ms,
            deadline_s=self.deadline_s,
        )


#: A burst offers this many times the mean rate, and bursts fill this share of a period of so many seconds.
BURST_FACTOR, BURST_SHARE, BURST_PERIOD_S = 3.0, 0.25, 4.0


def arrive_constantly(
    mix: Mix, rate_per_s: float, *, count: int | None, duration_s: float | None, source: random.Random
) -> Iterator[Arrival]:
    """At equal distances."""
    number = 0
    while (count is None or number < count) and (duration_s is None or number / rate_per_s < duration_s):
        yield mix.draw(number / rate_per_s, source)
        number += 1


def arrive_in_bursts(
    mix: Mix, rate_per_s: float, *, count: int | None, duration_s: float | None, source: random.Random
) -> Iterator[Arrival]:
    """At random (Poisson) with the same mean rate, most of it in bursts."""
    quiet = (1 - BURST_FACTOR * BURST_SHARE) / (1 - BURST_SHARE)
    at_s, number = 0.0, 0
    while count is None or number < count:
        # Thinning: candidates at the burst's rate, of which the quiet time keeps a part.
        at_s += source.expovariate(rate_per_s * BURST_FACTOR)
        if duration_s is not None and at_s >= duration_s:
            return
        in_burst = at_s % BURST_PERIOD_S < BURST_SHARE * BURST_PERIOD_S
        if in_burst or source.random() < quiet / BURST_FACTOR:
            yield mix.draw(at_s, source)
            number += 1


#: Requested time up to which a trace's job is urgent, and normal, in seconds.
URGENT_S, NORMAL_S = 20 * 60, 12 * 3600


def arrive_from_trace(
    jobs: Iterable[SwfJob],
    *,
    speedup: float,
    service_scale: float = 1.0,
    sleep_cap_s: float = 5.0,
    limit_s: float | None = None,
    from_s: float = 0.0,
) -> Iterator[Arrival]:
    """A trace with its time compressed: ``limit_s`` and ``sleep_cap_s`` count compressed seconds.

    Group is the tenant; the requested time chooses the queue and, scaled, is the declared cost; the run
    time, scaled, is how long the job sleeps. A job of unknown run time sleeps as long as it requested,
    or not at all if that is unknown too. ``from_s`` skips that much of the trace, in its own seconds.
    """
    scale = service_scale / speedup
    for job in jobs:
        at_s = (job.submit_s - from_s) / speedup
        if at_s < 0:
            continue
        if limit_s is not None and at_s > limit_s:
            return
        run_s = job.run_s if job.run_s is not None else job.requested_s or 0.0
        yield Arrival(
            at_s,
            "drill.sleep",
            queue=queue_of_requested(job.requested_s),
            tenant="unknown" if job.group is None else f"group-{job.group}",
            args=(round(min(sleep_cap_s, run_s * scale), 4),),
            # What is asked for is capped like what is used, or a short sleep would be declared as hours.
            cost_ms=None
            if job.requested_s is None
            else max(1, round(min(sleep_cap_s, job.requested_s * scale) * 1000)),
        )


def queue_of_requested(requested_s: float | None) -> str:
    if requested_s is None or requested_s > NORMAL_S:
        return "bulk"
    return "urgent" if requested_s <= URGENT_S else "normal"


def draw_name(weights: Mapping[str, float], source: random.Random) -> str:
    if len(weights) == 1:
        return next(iter(weights))
    return source.choices(list(weights), list(weights.values()))[0]

"""Which bounds does a promised wait give? Little's law: what may stand is what is served within the wait.

J. D. C. Little, "A Proof for the Queuing Formula: L = lambda W", Operations Research 9 (1961).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PRIOR_SLOTS = 4.0  # what a queue is taken to have before any worker was seen; bounds.lua has the same
PRIOR_SERVICE_MS = 100.0  # what the gate takes a job to cost before anything is measured
STEP = 0.2  # rates, and so bounds, move by at most this part of themselves a second


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a queue is served while it has work."""

    work_ms_per_s: float  # in ms of estimated cost
    jobs_per_s: float
    mean_s: float  # of one job's service

    @classmethod
    def from_model(cls, model: Mapping[str, float]) -> Rates | None:
        """The rates as they were published; None where they never were."""
        found = [float(model.get(name) or 0) for name in ("work_rate", "job_rate", "least_wait_s")]
        return cls(*found) if all(value > 0 for value in found) else None

    def as_model(self) -> dict[str, float | None]:
        return {
            "work_rate": round(self.work_ms_per_s, 3),
            "job_rate": round(self.jobs_per_s, 4),
            "least_wait_s": round(self.mean_s, 4),
        }


PRIOR = Rates(PRIOR_SLOTS * 1000, PRIOR_SLOTS * 1000 / PRIOR_SERVICE_MS, PRIOR_SERVICE_MS / 1000)


def step_towards(measured: Rates, before: Rates | None) -> Rates:
    """What is measured, or as near to it as one step from what stood before allows."""
    if before is None:
        before = PRIOR

    def step(goal: float, stood: float) -> float:
        return min(stood * (1 + STEP), max(stood * (1 - STEP), goal))

    return Rates(
        step(measured.work_ms_per_s, before.work_ms_per_s),
        step(measured.jobs_per_s, before.jobs_per_s),
        step(measured.mean_s, before.mean_s),
    )


@dataclass(frozen=True, slots=True)
class Promised:
    """Bounds from a promised wait: jobs, and ms of estimated cost."""

    count: int
    cost_ms: int
    wait_s: float  # the wait that counts: never less than one job takes, so that each slot has a next job


def promised_bounds(max_wait_s: float, rates: Rates | None) -> Promised:
    """The bounds that keep the wait; the prior's, while nothing is measured."""
    known = rates or PRIOR
    wait_s = max(max_wait_s, known.mean_s)
    count = max(1, int(wait_s * known.jobs_per_s))
    return Promised(count, max(1, int(wait_s * known.work_ms_per_s)), wait_s)


def promise_facts(
    policy: Mapping[str, Any],
    model: Mapping[str, float],
    *,
    slots: float,
    consumers: int,
    mean_service_ms: float | None,
    service_from: str,
) -> dict[str, Any] | None:
    """The sum behind the bounds, as it is shown; None where no wait is promised."""
    promised_s = policy.get("max_wait_s")
    if promised_s is None:
        return None
    rates = Rates.from_model(model)
    bounds = promised_bounds(promised_s, rates)
    known = rates or PRIOR
    facts: dict[str, Any] = {
        "max_wait_s": promised_s,
        "wait_s": round(bounds.wait_s, 3),
        "count": bounds.count,
        "cost_ms": bounds.cost_ms,
        "jobs_per_s": round(known.jobs_per_s, 3),
        "work_ms_per_s": round(known.work_ms_per_s, 1),
        "slots": round(known.work_ms_per_s / 1000, 2),  # kept busy for it, in the model
        "slots_open": round(slots, 2),
        "mean_service_ms": mean_service_ms and round(mean_service_ms, 1),
        "from": "prior" if rates is None else "last seen" if consumers == 0 else service_from,
        "step_per_s": STEP,
        "modeled": True,
    }
    if facts["mean_service_ms"] is None:
        facts["unknown"] = {"mean_service_ms": "no service time measured yet"}
    return facts

"""What must the admit script know to say when to come back, and what `max_wait_s` allows? Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .allocation import Claimant, allocate
from .drain import Outlook, Rules, load_slots
from .load import Load

PRIOR_SERVICE_MS = 100.0  # what the gate takes a job to cost before anything is measured
LEAST_SLOTS = 0.05  # a starved queue still gets something in the end: never tell anybody "never"


def queue_model(
    load: Load, loads: Sequence[Load], rules: Mapping[str, Rules], outlook: Outlook, *, total_slots: float
) -> dict[str, float | None]:
    """Capacity if this queue had a backlog; empty with no consumer, so that the last figures stand.

    Idle must not make the bounds tiny and no worker must not make them zero: it is live slots by share
    and mean service time, never the completions of a quiet minute.
    """
    if load.consumers == 0 or load.slots <= 0:
        return {"seconds_to_drain": None}
    slots = max(LEAST_SLOTS, capacity(load, loads, rules, total_slots=total_slots))
    if load.completed_per_s is not None:
        slots = max(LEAST_SLOTS, load_slots(load, load.completed_per_s))
    mean_ms = load.mean_service_ms or PRIOR_SERVICE_MS
    wait_s = 0.0 if load.depth == 0 else load.work_ms / 1000 / slots
    return {
        "service_rate_per_s": round(slots * 1000 / mean_ms, 4),
        "work_rate": round(slots * 1000 / load.cost_factor, 3),
        "seconds_to_drain": round(wait_s, 3),
    }


def capacity(load: Load, loads: Sequence[Load], rules: Mapping[str, Rules], *, total_slots: float) -> float:
    claimants = []
    for other in loads:
        rule = rules.get(other.name, Rules())
        busy = other.name == load.name or other.depth > 0
        claimants.append(
            Claimant(
                name=other.name,
                wants=math.inf if busy else load_slots(other, other.arrivals_per_s),
                open_slots=other.slots,
                strict_rank=rule.strict_rank,
                weight=rule.weight,
                reserved=rule.reserved,
                cap=rule.cap,
                past_ceiling=rule.ceiling_s is not None and other.depth > 0 and other.age_s > rule.ceiling_s,
            )
        )
    return allocate(claimants, total=total_slots)[load.name]

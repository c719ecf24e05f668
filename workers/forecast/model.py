"""What must the admit script know to say when to come back, and what `max_wait_s` allows? Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .allocation import allocate
from .drain import Rules, claimant, load_slots
from .load import Load
from .promise import PRIOR, PRIOR_SERVICE_MS, Rates, step_towards

SPAN_S = 10.0  # over which what stands in other queues is spread, where it competes for the slots
LEAST_SLOTS = 0.05  # a starved queue still gets something in the end: never tell anybody "never"


def queue_model(
    load: Load,
    loads: Sequence[Load],
    rules: Mapping[str, Rules],
    *,
    total_slots: float,
    before: Mapping[str, float] | None = None,
) -> dict[str, float | None]:
    """Capacity if this queue had a backlog; with no consumer the last rates stand, and before any the prior.

    Idle must not make the bounds tiny and no worker must not make them zero: it is live slots by share
    and mean service time, never the completions of a quiet minute. The rates behind bounds move from what
    was published ``before`` by one step at most. ``through:NAME`` is the part of the queue's slots that a
    downstream named by its tasks lets work, for as long as jobs stand aside for it.
    """
    held = Rates.from_model(before or {})
    if load.consumers == 0 or load.slots <= 0:
        return {"seconds_to_drain": None, **(PRIOR.as_model() if held is None else {})}
    open_slots = max(LEAST_SLOTS, capacity(load, loads, _without_downstreams(rules), total_slots=total_slots))
    slots = max(LEAST_SLOTS, capacity(load, loads, rules, total_slots=total_slots))
    share = min(1.0, slots / open_slots)
    parts = {
        f"through:{via.downstream}": round(min(1.0, via.calls / open_slots), 4)
        for via in rules[load.name].through
        if via.downstream != rules[load.name].downstream
    }
    gone = {name: None for name in before or {} if name.startswith("through:")}
    if load.completed_per_s is not None:
        slots = max(LEAST_SLOTS, load_slots(load, load.completed_per_s))
    mean_ms = load.mean_service_ms or PRIOR_SERVICE_MS
    wait_s = 0.0 if load.depth == 0 else load.work_ms / 1000 / slots
    measured = Rates(slots * 1000 / load.cost_factor, slots * 1000 / mean_ms, mean_ms / 1000)
    return {
        "service_rate_per_s": round(measured.jobs_per_s, 4),
        "seconds_to_drain": round(wait_s, 3),
        "downstream_share": round(share, 4),
        **gone,
        **parts,
        **step_towards(measured, held).as_model(),
    }


def capacity(load: Load, loads: Sequence[Load], rules: Mapping[str, Rules], *, total_slots: float) -> float:
    """Slots that this queue would keep busy with a backlog, beside what the others ask for.

    They ask for what arrives and for what stands there, spread over some seconds: one urgent job that waits
    at the instant of a sample takes no slot for longer than it runs, and a backlog takes all.
    """
    claimants = []
    for other in loads:
        standing = other.work_ms / 1000 / SPAN_S if other.depth else 0.0
        asked = load_slots(other, other.arrivals_per_s) + standing
        wants = math.inf if other.name == load.name else asked
        claimants.append(claimant(other, rules, wants=wants, has_work=other.depth > 0))
    return allocate(claimants, total=total_slots)[load.name]


def _without_downstreams(rules: Mapping[str, Rules]) -> dict[str, Rules]:
    return {name: replace(rule, through=()) for name, rule in rules.items()}

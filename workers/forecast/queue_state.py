"""In which of the seven states is a queue?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORST_FIRST = ("at_bound", "past_ceiling", "stalled", "past_guard", "unknown", "closed", "in_bounds")
SHAPES = {
    "in_bounds": "ring",
    "past_guard": "triangle",
    "stalled": "triangle",
    "past_ceiling": "diamond",
    "at_bound": "diamond",
    "closed": "square",
    "unknown": "dashed",
}


@dataclass(frozen=True, slots=True)
class Facts:
    depth: int
    held: int  # waiting and delayed: what count and bytes bound
    bytes: int
    cost_ms: int
    oldest_age_ms: int
    consumers: int
    guard_age_s: float | None
    age_ceiling_s: float | None
    bounds: Mapping[str, float | None]  # in force, after the mode's share
    admits: bool  # under the mode
    next_bytes: float = 0.0  # what one more job of the usual size would add
    next_cost_ms: float = 0.0
    spill_full: bool = False  # the spill takes what the bounds do not, until it is full itself


def queue_state(facts: Facts) -> str:
    """The one word; what users feel (age) goes before what the gate does (closed)."""
    if facts.depth > 0 and facts.consumers == 0:
        return "stalled"
    if facts.admits and full_bound(facts):
        return "at_bound"
    if facts.age_ceiling_s is not None and facts.oldest_age_ms > 1000 * facts.age_ceiling_s:
        return "past_ceiling"
    if facts.guard_age_s is not None and facts.oldest_age_ms > 1000 * facts.guard_age_s:
        return "past_guard"
    return "in_bounds" if facts.admits else "closed"


def full_bound(facts: Facts) -> str:
    """The name of a bound that leaves no room for one more job of the usual size; empty if all do."""
    values = {
        "count": float(facts.held + 1),
        "bytes": facts.bytes + max(1.0, facts.next_bytes),
        "cost_ms": facts.cost_ms + max(1.0, facts.next_cost_ms),
        "age_s": facts.oldest_age_ms / 1000,
    }
    for name, value in values.items():
        bound = facts.bounds.get(name)
        if bound is not None and value > bound:
            return name
    return "spill" if facts.spill_full else ""

"""Which place has each queue in the dispatch?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...forecast.drain import Rules
from .downstreams import calls_through, live_limits


def queue_order(name: str, policy: Mapping[str, Any]) -> tuple[Any, ...]:
    """Strict ranks first, then the heavier; it never changes by itself."""
    rank = policy.get("strict_rank")
    return (rank is None, rank or 0, -float(policy.get("weight") or 0), name)


def rules_of(snapshot: Mapping[str, Any]) -> dict[str, Rules]:
    """Each queue's place in the dispatch, with its downstream's limit as it stands."""
    limits = live_limits(snapshot)
    return {
        name: _queue_rules(snapshot["policies"].get(name, {}), row, limits)
        for name, row in snapshot["queues"].items()
    }


def _queue_rules(policy: Mapping[str, Any], row: Mapping[str, Any], limits: Mapping[str, float]) -> Rules:
    weight, downstream = policy.get("weight"), policy.get("downstream")
    return Rules(
        strict_rank=policy.get("strict_rank"),
        weight=1.0 if weight is None else float(weight),
        reserved=float(policy.get("reserved_slots") or 0),
        cap=policy.get("max_in_flight"),
        ceiling_s=policy.get("age_ceiling_s"),
        downstream=downstream,
        through=calls_through(downstream, limits, row),
    )

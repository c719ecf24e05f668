"""What does a mode do to a queue's bounds, and which mode is in force?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..forecast.promise import Rates, promised_bounds

RANK = {"normal": 0, "saturated": 1, "draining": 2, "failed": 3}
BOUND_FIELDS = {"count": "max_count", "bytes": "max_bytes", "cost_ms": "max_cost_ms", "age_s": "max_age_s"}

Mode = Mapping[str, Any]
Bounds = dict[str, float | None]


def is_over(mode: Mode | None, *, now_ms: int) -> bool:
    """Whether an entry has passed its `until` and no longer counts."""
    until = mode.get("until_at_ms") if mode else None
    return until is not None and int(until) <= now_ms


def in_force(modes: Mapping[str, Mode], scope: str, *, now_ms: int) -> tuple[str, Mode | None]:
    """The strictest of the installation's and the queue's own; with the entry it comes from."""
    best, source = "normal", None
    for name in dict.fromkeys(("*", scope)):
        entry = modes.get(name)
        if entry is None or is_over(entry, now_ms=now_ms):
            continue
        if source is None or RANK[entry["mode"]] > RANK[best]:
            best, source = entry["mode"], entry
    return best, source


def full_bounds(policy: Mapping[str, Any], *, model: Mapping[str, float] | None = None) -> Bounds:
    """The four bounds as the policy says them; `max_wait_s` bounds count and cost by the measured rates."""
    bounds: Bounds = {name: policy.get(field) for name, field in BOUND_FIELDS.items()}
    wait_s = policy.get("max_wait_s")
    if wait_s is not None:
        promised = promised_bounds(wait_s, Rates.from_model(model or {}))
        for name, by_wait in (("count", promised.count), ("cost_ms", promised.cost_ms)):
            stated = bounds[name]
            bounds[name] = by_wait if stated is None else min(stated, by_wait)
    return bounds


LEAST_SHARE = 0.01  # includes/bounds.lua has the same: a queue is never shut by its downstream alone


def downstream_share(policy: Mapping[str, Any], model: Mapping[str, float] | None) -> float:
    """The part of a queue's slots that its downstream lets work; its stated bounds shrink to that part."""
    if policy.get("downstream") is None:
        return 1.0
    share = (model or {}).get("downstream_share")
    return 1.0 if share is None else min(1.0, max(LEAST_SHARE, float(share)))


def admits(policy: Mapping[str, Any], mode: str) -> bool:
    if mode == "failed":
        return False
    if mode == "draining":
        return bool(policy.get("admit_while_draining"))
    return mode != "saturated" or saturated_share(policy) > 0


def saturated_share(policy: Mapping[str, Any]) -> float:
    share = policy.get("saturated_share")
    return 1.0 if share is None else float(share)


def bounds_in_force(
    policy: Mapping[str, Any], mode: str, *, model: Mapping[str, float] | None = None
) -> Bounds:
    """What the bounds are under the mode and the downstream; age is a promise, not room, and keeps its bound.

    A promised wait follows the downstream by itself, since its rates are measured behind it.
    """
    bounds = full_bounds(policy, model=model)
    if not admits(policy, mode):
        return {name: (bound if name == "age_s" else 0) for name, bound in bounds.items()}
    share = saturated_share(policy) if mode == "saturated" else 1.0
    behind = downstream_share(policy, model)
    for name, field in (("count", "max_count"), ("cost_ms", "max_cost_ms")):
        stated, bound = policy.get(field), bounds[name]
        if stated is not None and bound is not None:
            bounds[name] = min(bound, stated * behind)
    return {
        name: bound if bound is None or name == "age_s" else int(bound * share)
        for name, bound in bounds.items()
    }

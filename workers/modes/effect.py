"""What does a mode do to a queue's bounds, and which mode is in force?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RANK = {"normal": 0, "saturated": 1, "draining": 2, "failed": 3}
BOUND_FIELDS = {"count": "max_count", "bytes": "max_bytes", "cost_ms": "max_cost_ms", "age_s": "max_age_s"}

Mode = Mapping[str, Any]


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


def full_bounds(policy: Mapping[str, Any], *, work_rate: float | None = None) -> dict[str, float | None]:
    """The four bounds as the policy says them; `max_wait_s` bounds the cost by the measured rate."""
    bounds: dict[str, float | None] = {name: policy.get(field) for name, field in BOUND_FIELDS.items()}
    wait_s = policy.get("max_wait_s")
    if wait_s is not None and work_rate:
        by_wait = wait_s * work_rate
        bounds["cost_ms"] = round(by_wait if bounds["cost_ms"] is None else min(bounds["cost_ms"], by_wait))
    return bounds


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
    policy: Mapping[str, Any], mode: str, *, work_rate: float | None = None
) -> dict[str, float | None]:
    """What the bounds are under the mode; age is a promise, not room, and keeps its bound."""
    bounds = full_bounds(policy, work_rate=work_rate)
    if not admits(policy, mode):
        return {name: (bound if name == "age_s" else 0) for name, bound in bounds.items()}
    share = saturated_share(policy) if mode == "saturated" else 1.0
    return {
        name: bound if bound is None or name == "age_s" else int(bound * share)
        for name, bound in bounds.items()
    }

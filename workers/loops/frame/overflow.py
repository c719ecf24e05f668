"""What waits outside a queue's bounds until there is room: spilled jobs, and tickets in line?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.reasons import explain_bounds, explain_nulls
from ...states import TICKETS


def is_spill_full(queue: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Whether jobs are spilled and no other of the usual size would find room among them."""
    count, size = int(queue.get("spilled") or 0), int(queue.get("spilled_bytes") or 0)
    if not count or policy.get("on_full") != "spill":
        return False
    most, most_bytes = policy.get("spill_max_count"), policy.get("spill_max_bytes")
    return (most is not None and count >= most) or (
        most_bytes is not None and size + size / count > most_bytes
    )


def spill_part(queue: Mapping[str, Any], policy: Mapping[str, Any], *, now_ms: int) -> dict[str, Any] | None:
    """What stands outside the queue's bounds until there is room; None where the policy has no spill."""
    count = int(queue.get("spilled") or 0)
    if not count and policy.get("on_full") != "spill":
        return None
    oldest = queue.get("spill_oldest_at_ms")
    bounds = {name: policy.get(f"spill_max_{name}") for name in ("count", "bytes", "age_s")}
    return {
        "count": count,
        "bytes": int(queue.get("spilled_bytes") or 0),
        "oldest_age_ms": 0 if oldest is None else max(0, now_ms - int(oldest)),
        "bounds": explain_bounds(bounds),
    }


def waiting_room_part(queue: Mapping[str, Any], policy: Mapping[str, Any]) -> dict[str, Any] | None:
    """Who waits in line with a ticket; None for a queue without a waiting room."""
    if policy.get("waiting_room_max") is None:
        return None
    tickets = {**dict.fromkeys(("line", "called", *TICKETS), 0), **(queue.get("tickets") or {})}
    rate = (queue.get("model") or {}).get("service_rate_per_s")
    part = {
        **tickets,
        "max": policy["waiting_room_max"],
        "slot_s": policy.get("waiting_room_slot_s"),
        "modeled_wait_s": round((tickets["line"] + 1) / rate, 1) if rate else None,
    }
    return explain_nulls(part, {"modeled_wait_s": "no service rate has been measured yet"})

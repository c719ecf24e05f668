"""What does a frame tell the mode controller?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .controller import Reading


def held_of(row: Mapping[str, Any]) -> dict[str, float]:
    """What a queue's row of the frame holds, by the names of the bounds that stand over it."""
    return {
        "count": row["depth"] + row["delayed"] - row.get("spilled", 0),
        "bytes": row["bytes"],
        "cost_ms": row["cost_ms"],
        "age_s": row["oldest_age_ms"] / 1000,
    }


def read_queue(row: Mapping[str, Any], policy: Mapping[str, Any]) -> Reading:
    """One queue's row of the frame and its policy, as the controller sees them."""
    held = held_of(row)
    fills = {name: value / row["bounds"][name] for name, value in held.items() if row["bounds"].get(name)}
    return Reading(
        name=row["name"],
        oldest_age_s=row["oldest_age_ms"] / 1000,
        guard_age_s=policy.get("guard_age_s"),
        fills=fills,
        high_mark=_number(policy.get("high_mark"), 0.9),
        low_mark=_number(policy.get("low_mark"), 0.5),
        hold_s=_number(policy.get("hold_s"), 60.0),
        left=row["depth"] + row["in_flight"] + row.get("spilled", 0),
        consumers=row["consumers"],
        is_stalled=row["state"] == "stalled",
    )


def _number(value: Any, default: float) -> float:
    return default if value is None else float(value)

"""When is a queue's backlog gone, or the queue full, and from what is that reckoned?"""

from __future__ import annotations

from typing import Any

from ...forecast.drain import Outlook, Rules, band, drain_facts
from ...forecast.fullness import Fill
from ...forecast.load import Load
from ...metrics.reasons import explain_nulls


def drain_part(
    load: Load, outlook: Outlook, fewer: Outlook, *, rule: Rules, total_slots: float, fill: Fill | None
) -> dict[str, Any]:
    """The outlook in seconds, with its band; ``fewer`` is the same with one slot fewer."""
    low, high = (0.0, 0.0) if outlook.state == "empty" else band(load, outlook) or (None, None)
    part = {
        "state": outlook.state,
        "reason": outlook.reason,
        "modeled": True,
        "seconds": _seconds(outlook.seconds),
        "low": _seconds(low),
        "high": _seconds(high),
        "full_in_s": _seconds(fill.seconds if fill else None),
        "full_by": fill.bound if fill else None,
        "inputs": {
            **drain_facts(load, outlook, rule=rule, total_slots=total_slots),
            "one_slot_fewer": explain_nulls(
                {"state": fewer.state, "seconds": _seconds(fewer.seconds)},
                {"seconds": fewer.reason or fewer.state},
            ),
        },
    }
    growing = outlook.state in ("growing", "stalled")
    return explain_nulls(
        part,
        {
            **dict.fromkeys(("seconds", "low", "high"), outlook.reason or "not modeled"),
            "full_in_s": "no bound comes nearer" if growing else f"not growing: {outlook.state}",
        },
    )


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(max(0.0, value), 1)

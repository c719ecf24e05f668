"""What would give way first in a mode, and how near is each queue to it now?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.modes.reading import held_of
from workers.modes.shed_order import say_entry, say_within, shed_order


def read_shed_order(
    policies: Mapping[str, Mapping[str, Any]], frame: Mapping[str, Any] | None, *, mode: str
) -> dict[str, Any]:
    """`now` of a step is what the newest frame says of its queue; null where it says nothing."""
    rows = {row["name"]: row for row in (frame or {}).get("queues") or []}
    steps = []
    for step in shed_order(policies, mode):
        shown = step.as_dict()
        shown["now"] = _now(rows.get(step.queue), shown)
        if shown["now"] is None:
            shown["unknown"] = {"now": "no sample of this queue"}
        steps.append(shown)
    return {
        "mode": mode,
        "in_force": (frame or {}).get("mode"),
        "entered": say_entry(policies, mode),
        "within_a_queue": say_within(policies),
        "steps": steps,
    }


def _now(row: Mapping[str, Any] | None, step: Mapping[str, Any]) -> dict[str, Any] | None:
    if row is None:
        return None
    held = held_of(row)
    fills = {name: held[name] / bound for name, bound in step["bounds"].items() if bound}
    fullest = max(fills, key=lambda name: fills[name], default=None)
    gives_way = step["effect"] == "closed" or (fullest is not None and fills[fullest] >= 1)
    return {
        "offered_per_s": (row.get("rates") or {}).get("offered"),
        "fullest": fullest,
        "fill": None if fullest is None else round(fills[fullest], 4),
        "gives_way": gives_way,
    }

"""Which alerts are open, and what is the measure of each now?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...alerts.measures import WHOLE_GATE, gate_value, queue_value
from ...metrics.reasons import explain_nulls
from .inputs import DatabaseFacts


def alerts_part(
    facts: DatabaseFacts, mode: str, rows: Sequence[Mapping[str, Any]], held: Mapping[str, Any]
) -> dict[str, Any]:
    """Open alerts, each with what its measure is `now`: `value` is what it was when it fired."""
    why = "" if facts.alerts_known else facts.unknown
    part = {
        "firing": None if why else len(facts.alerts),
        "items": [{**item, "now": _value_now(item, mode, rows, held)} for item in facts.alerts],
        "last_at_ms": facts.last_alert_at_ms,
    }
    return explain_nulls(part, {"firing": why, "last_at_ms": facts.unknown or "none has fired"})


def _value_now(
    item: Mapping[str, Any], mode: str, rows: Sequence[Mapping[str, Any]], held: Mapping[str, Any]
) -> float | None:
    """What an alert's measure is in this frame; None where that is not known."""
    if item["measure"] in WHOLE_GATE:
        return gate_value(item["measure"], item["queue"] or "", mode=mode, rows=rows, quarantine=held)
    row = next((row for row in rows if row["name"] == item["queue"]), None)
    return None if row is None else queue_value(item["measure"], row)

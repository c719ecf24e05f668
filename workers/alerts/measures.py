"""What is the value of a rule's measure, read from a frame?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..metrics.objective import FAST, SLOW, alert_value
from .rules import Rule

#: Measures of the completion promise: the burn rate that both windows of a pair are past.
BURN_WINDOWS: Mapping[str, tuple[str, str]] = {"burn_rate_fast": FAST, "burn_rate_slow": SLOW}
#: 1 while the installation's mode is failed. Judged without a frame too (loops/alerter.py).
GATE_FAILED = "gate_failed"
#: How many queues an operator keeps closed by draining; of one queue 1 or 0.
QUEUES_DRAINING = "queues_draining"
WHOLE_GATE = (GATE_FAILED, QUEUES_DRAINING, "quarantine_count", "quarantine_age_s")


def read_values(rule: Rule, frame: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """(queue, value) for everything that the rule watches; None where it is not known."""
    if rule.measure in WHOLE_GATE:
        yield (
            rule.queue,
            gate_value(
                rule.measure,
                rule.queue,
                mode=frame["mode"],
                rows=frame["queues"],
                quarantine=frame["quarantine"],
            ),
        )
        return
    for row in frame["queues"]:
        if rule.queue in ("", row["name"]):
            yield row["name"], queue_value(rule.measure, row)


def gate_value(
    measure: str, queue: str, *, mode: str, rows: Sequence[Mapping[str, Any]], quarantine: Mapping[str, Any]
) -> float | None:
    """The value of a measure of the whole gate; ``mode`` is the installation's, ``queue`` the rule's."""
    if measure == GATE_FAILED:
        return float(mode == "failed")
    if measure == QUEUES_DRAINING:
        return float(sum(row["mode"] == "draining" for row in rows if queue in ("", row["name"])))
    return quarantine_value(measure, queue, quarantine)


def queue_value(measure: str, row: Mapping[str, Any]) -> float | None:
    if measure == "oldest_age_s":
        age_ms = row["oldest_age_ms"]
        return None if age_ms is None else age_ms / 1000
    if measure == "depth":
        return None if row["depth"] is None else float(row["depth"])
    if measure == "no_consumer":
        return 1.0 if row["depth"] and not row["consumers"] else 0.0
    if measure in ("shed_rate", "refused_rate"):
        rate = row["rates"].get(measure.removesuffix("_rate"))
        return None if rate is None else float(rate)
    if measure in BURN_WINDOWS:
        return alert_value(row.get("objective"), BURN_WINDOWS[measure])
    raise ValueError(f"no such measure: {measure}")


def quarantine_value(measure: str, queue: str, quarantine: Mapping[str, Any]) -> float | None:
    part: Mapping[str, Any] = quarantine
    if queue:
        by_queue = quarantine.get("by_queue")
        if by_queue is None:
            return None
        part = by_queue.get(queue, {"count": 0, "oldest_age_ms": 0})
    if measure == "quarantine_count":
        return None if part["count"] is None else float(part["count"])
    age_ms = part["oldest_age_ms"]
    return None if age_ms is None else age_ms / 1000

"""How many a second, over the last 5 s?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..states import TOTALS
from .history import History

RATE_WINDOW_MS = 5_000  # DESIGN: rates are per second over the last 5 s


def queue_rates(history: History, queue: str) -> dict[str, Any]:
    """One rate a counter; all null, with the reason beside them, when no honest difference can be taken."""
    latest, earlier = history.latest, history.reference(RATE_WINDOW_MS)
    if latest is None or queue not in latest["queues"]:
        return unknown_rates(TOTALS, "no sample of this queue")
    if earlier is None:
        return unknown_rates(TOTALS, history.why_no_reference(RATE_WINDOW_MS))
    if queue not in earlier["queues"]:
        return unknown_rates(TOTALS, "not enough samples yet")
    span_s = (int(latest["now_ms"]) - int(earlier["now_ms"])) / 1000
    return difference(
        earlier["queues"][queue]["totals"], latest["queues"][queue]["totals"], TOTALS, span_s=span_s
    )


def refusal_rates(history: History, queue: str) -> dict[str, float]:
    """The refusals of `queue` a second by their reason; empty when no honest difference can be taken."""
    latest, earlier = history.latest, history.reference(RATE_WINDOW_MS)
    if latest is None or earlier is None or not (queue in latest["queues"] and queue in earlier["queues"]):
        return {}
    span_s = (int(latest["now_ms"]) - int(earlier["now_ms"])) / 1000
    after = latest["queues"][queue]["totals"].get("refused_by") or {}
    before = earlier["queues"][queue]["totals"].get("refused_by") or {}
    rates = difference(before, after, tuple(after), span_s=span_s)
    return {name: rates[name] for name in after if rates[name]}


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str], *, span_s: float
) -> dict[str, Any]:
    """Per-second differences; a counter that went back is null, never negative."""
    rates: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name in names:
        delta = (after.get(name) or 0) - (before.get(name) or 0)
        if delta < 0 or span_s <= 0:
            rates[name], unknown[name] = None, "a counter went back: Redis lost data"
        else:
            rates[name] = round(delta / span_s, 3)
    if unknown:
        rates["unknown"] = unknown
    return rates


def unknown_rates(names: Sequence[str], reason: str) -> dict[str, Any]:
    return {**dict.fromkeys(names), "unknown": dict.fromkeys(names, reason)}


def sum_rates(many: Sequence[Mapping[str, Any]], names: Sequence[str] = TOTALS) -> dict[str, Any]:
    """The rate over all queues; unknown as soon as one part of the sum is."""
    total: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name in names:
        parts = [rates.get(name) for rates in many]
        if not parts or any(part is None for part in parts):
            total[name] = None
            unknown[name] = next(
                (str(rates["unknown"][name]) for rates in many if name in rates.get("unknown", {})),
                "no queue",
            )
        else:
            total[name] = round(sum(part for part in parts if part is not None), 3)
    if unknown:
        total["unknown"] = unknown
    return total

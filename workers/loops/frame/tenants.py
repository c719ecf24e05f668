"""Who holds and who offers how much of each queue?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...forecast.load import Load
from ...metrics.history import History
from ...metrics.rates import RATE_WINDOW_MS, difference, unknown_rates
from ...metrics.reasons import explain_nulls

TENANT_WINDOW_MS = 60_000
NOT_SEEN = "an earlier sample had no row of it: of many tenants it looks at some"
TENANTS_SHOWN = 50  # rows of a queue and a tenant; each is half a KiB, to every viewer, every second
COUNTED = ("offered", "accepted", "refused", "succeeded")


def tenants_part(
    history: History, loads: Sequence[Load], *, total_slots: float
) -> tuple[list[dict[str, Any]], int]:
    """The rows that a frame has room for; and how many tenants of a queue it has no row of."""
    snapshot = history.latest
    assert snapshot is not None
    unseen = _unseen_tenants(snapshot)
    rows, left_out = _largest(_tenant_rows(history, loads, unseen=unseen, total_slots=total_slots))
    return rows, left_out + sum(unseen.values())


def find_offerers(
    tenants: Sequence[Mapping[str, Any]], of_all: Mapping[str, float | None]
) -> dict[str, tuple[str, float]]:
    """Who offers most to each queue, with the share of what all offer; only where there is more than one."""
    offered: dict[str, list[tuple[float, str]]] = {}
    for row in tenants:
        rate = row["rates"].get("offered")
        if rate:
            offered.setdefault(row["queue"], []).append((rate, row["tenant"]))
    return {
        queue: (max(rows)[1], max(rows)[0] / max(of_all.get(queue) or 0.0, sum(rate for rate, _ in rows)))
        for queue, rows in offered.items()
        if len(rows) > 1
    }


def _tenant_rows(
    history: History, loads: Sequence[Load], *, unseen: Counter[str], total_slots: float
) -> list[dict[str, Any]]:
    """One row a queue and tenant; the share is of all slot time over the last minute."""
    snapshot, earlier = history.latest, history.reference(RATE_WINDOW_MS)
    assert snapshot is not None
    now_ms = int(snapshot["now_ms"])
    minute_ago = next(history.within(TENANT_WINDOW_MS), snapshot)
    span_ms = now_ms - int(minute_ago["now_ms"])
    mean_ms = {load.name: load.mean_service_ms for load in loads}
    before_5, before_60 = _Before(earlier), _Before(minute_ago)
    active = Counter(
        row["queue"]
        for row in snapshot["tenants"]
        if (row["depth"] and not row.get("suspended")) or row["in_flight"]
    )
    rows = []
    for row in snapshot["tenants"]:
        queue = row["queue"]
        before, long_before = before_5.find(row), before_60.find(row)
        oldest = row.get("oldest_eligible_at_ms")
        if earlier is None:
            rates = unknown_rates(COUNTED, history.why_no_reference(RATE_WINDOW_MS))
        elif before is None:
            rates = unknown_rates(COUNTED, NOT_SEEN)
        else:
            span_s = (now_ms - int(earlier["now_ms"])) / 1000
            rates = difference(before, row, COUNTED, span_s=span_s)
        sharers = 0 if unseen[queue] else active[queue]
        out = {
            "tenant": row["tenant"],
            "queue": queue,
            "rates": rates,
            "depth": int(row["depth"]),
            "delayed": int(row["delayed"]),
            "in_flight": int(row["in_flight"]),
            "bytes": int(row["bytes"]),
            "cost_ms": int(row["cost_ms"]),
            "share": _slot_share(long_before, row, mean_ms.get(queue), span_ms=span_ms, slots=total_slots),
            "fair_share": round(1 / sharers, 4) if sharers else None,
            "oldest_age_ms": None if row.get("parked") else max(0, now_ms - int(oldest)) if oldest else 0,
            "suspended": bool(row.get("suspended")),
            "totals": {name: int(row.get(name) or 0) for name in COUNTED},
        }
        why = "a sample looks at some of its tenants only" if unseen[queue] else "nobody waits or runs"
        reasons = {
            "share": NOT_SEEN if long_before is None else "not enough samples yet",
            "fair_share": why,
            "oldest_age_ms": "some of its jobs stand aside, and their age is told of the queue only",
        }
        rows.append(explain_nulls(out, reasons))
    return rows


class _Before:
    """Tenants as an earlier sample had them."""

    def __init__(self, snapshot: Mapping[str, Any] | None) -> None:
        rows = snapshot["tenants"] if snapshot else ()
        self._rows = {(row["queue"], row["tenant"]): row for row in rows}
        self._unseen = _unseen_tenants(snapshot) if snapshot else Counter()

    def find(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Nothing counted for one that was not there; None where it may have been, unseen."""
        queue = row["queue"]
        return self._rows.get((queue, row["tenant"]), None if self._unseen[queue] else {})


def _slot_share(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    mean_ms: float | None,
    *,
    span_ms: int,
    slots: float,
) -> float | None:
    if before is None or span_ms < 3_000 or slots <= 0:
        return None
    runs = sum(int(after.get(name) or 0) - int(before.get(name) or 0) for name in ("succeeded", "failed"))
    if runs <= 0:
        return 0.0
    return None if mean_ms is None else round(min(1.0, runs * mean_ms / (slots * span_ms)), 4)


def _unseen_tenants(snapshot: Mapping[str, Any]) -> Counter[str]:
    """How many tenants of each queue a sample has no row of: it looks at some of many."""
    seen = Counter(row["queue"] for row in snapshot["tenants"])
    known = {name: int(row.get("tenants_known") or 0) for name, row in snapshot["queues"].items()}
    return Counter({name: max(0, number - seen[name]) for name, number in known.items()})


def _largest(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The rows that a frame has room for, by what they hold and offer; and how many it has none for."""
    order = sorted(rows, key=lambda r: (-(r["depth"] + r["in_flight"]), -(r["rates"].get("offered") or 0.0)))
    kept = {id(row) for row in order[:TENANTS_SHOWN]}
    return [row for row in rows if id(row) in kept], max(0, len(rows) - TENANTS_SHOWN)

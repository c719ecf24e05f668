"""How much does each downstream take now, and how long does it take? The frame's part about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...forecast.allocation import Through
from ...metrics.history import History
from ...metrics.percentiles import BinValue, percentiles
from ...metrics.rates import RATE_WINDOW_MS, difference, unknown_rates
from ...metrics.reasons import null_reasons

COUNTED = ("answered", "dropped", "cuts", "raises")


def live_limits(snapshot: Mapping[str, Any]) -> dict[str, float]:
    """Calls at a time that each downstream takes now."""
    return {row["name"]: float(math.floor(row["limit"])) for row in snapshot.get("downstreams") or ()}


def calls_through(
    named: str | None, limits: Mapping[str, float], row: Mapping[str, Any]
) -> tuple[Through, ...]:
    """What a queue's work calls: the downstream of its policy, and those for which jobs stand aside.

    How many of the jobs in line call what their task names is not known; those that met a full downstream
    stand aside and are. So a task's downstream shows once it holds work back.
    """
    depth, aside = int(row.get("depth") or 0), row.get("set_aside") or {}
    found = [
        Through(name, limits[name], min(1.0, count / depth))
        for name, count in sorted(aside.items())
        if name in limits and count > 0 and depth > 0
    ]
    rest = 1.0 - sum(via.share for via in found)
    if named is not None and named in limits and rest > 0:
        found.append(Through(named, limits[named], rest))
    return tuple(found)


def set_aside_rows(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What stands aside in a queue for downstreams that tasks name.

    ``share`` is the part of the queue's slots that the downstream lets work (modeled), and of its bounds in
    jobs and work that they may take; 1 until the monitor has modeled it.
    """
    model = row.get("model") or {}
    return [
        {"downstream": name, "jobs": int(jobs), "share": float(model.get(f"through:{name}", 1.0))}
        for name, jobs in sorted((row.get("set_aside") or {}).items())
        if jobs > 0
    ]


def downstream_rows(history: History, *, bin_value: BinValue) -> list[dict[str, Any]]:
    """A row a downstream, by name. Latencies are of answers of the last 60 s, drops left out."""
    snapshot, earlier = history.latest, history.reference(RATE_WINDOW_MS)
    assert snapshot is not None
    before = {row["name"]: row for row in (earlier or {}).get("downstreams") or ()}
    rows = []
    for row in sorted(snapshot.get("downstreams") or (), key=lambda row: str(row["name"])):
        if earlier is None:
            rates = unknown_rates(COUNTED[:2], history.why_no_reference(RATE_WINDOW_MS))
        elif row["name"] not in before:
            rates = unknown_rates(COUNTED[:2], "not enough samples yet")
        else:
            span_s = (int(snapshot["now_ms"]) - int(earlier["now_ms"])) / 1000
            rates = difference(before[row["name"]], row, COUNTED[:2], span_s=span_s)
        limit = math.floor(row["limit"])
        out: dict[str, Any] = {
            **{name: row[name] for name in ("name", "version", "kind", "target_ms", "min", "max", "initial")},
            **{name: row[name] for name in ("window_ms", "backoff", *COUNTED)},
            "limit": limit,
            "in_flight": row["in_flight"],
            "state": "at_limit" if row["in_flight"] >= limit else "open",
            "mean_ms": row["mean_ms"],  # of the window that moved the limit last
            "changed_at_ms": row["changed_at_ms"],
            "queues": sorted(
                queue
                for queue, policy in snapshot["policies"].items()
                if policy.get("downstream") == row["name"]
            ),
            "rates": rates,
            "latency_ms": percentiles(
                row["latency_bins"], bin_value=bin_value, nothing="no answer in the last 60 s"
            ),
            "gated_ms": percentiles(
                row["gated_bins"], bin_value=bin_value, nothing="no answer in the last 60 s"
            ),
        }
        reasons = {"mean_ms": "no window has ended yet", "changed_at_ms": "the limit has not moved yet"}
        out["unknown"] = null_reasons(out, reasons)
        rows.append(out)
    return rows

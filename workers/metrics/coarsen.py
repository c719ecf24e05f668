"""How do many fine samples become one coarse one? Maximum and median, never an average that hides a peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

GAUGES = ("oldest_age_ms", "depth", "delayed", "spilled", "in_flight", "bytes", "cost_ms")
RATES = ("offered", "accepted", "refused", "shed", "degraded", "started", "succeeded", "failed", "goodput")
WAITS = ("p50", "p95", "p99")


def make_sample(frame: Mapping[str, Any]) -> dict[str, Any]:
    """One frame's figures as they are kept: queue -> metric -> value or null; bins where it has them."""
    queues: dict[str, dict[str, Any]] = {}
    for row in frame["queues"]:
        figures: dict[str, Any] = {name: row[name] for name in GAUGES}
        figures |= {name: row["rates"].get(name) for name in RATES}
        figures |= {f"wait_{name}": row["wait_ms"].get(name) for name in WAITS}
        # Running counters: their maximum is their last, so a burn rate can go on over a restart.
        figures |= {f"{name}_n": row["totals"].get(name) for name in ("promised", "in_objective")}
        figures["drain_s"] = row["drain"]["seconds"]
        if "wait_bins" in row:
            figures["wait_bins"] = row["wait_bins"]
        queues[row["name"]] = figures
    return {"mode": frame["mode"], "queues": queues}


def coarsen(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`queues` holds the maxima and `median` the medians; unknown values count for neither."""
    names = dict.fromkeys(name for sample in samples for name in sample["queues"])
    highest: dict[str, dict[str, Any]] = {}
    middle: dict[str, dict[str, Any]] = {}
    for name in names:
        rows = [sample["queues"][name] for sample in samples if name in sample["queues"]]
        medians = [s["median"][name] for s in samples if "median" in s and name in s["median"]] or rows
        metrics = dict.fromkeys(metric for row in rows for metric in row if metric != "wait_bins")
        highest[name] = {metric: _of(rows, metric, max) for metric in metrics}
        middle[name] = {metric: _of(medians, metric, median) for metric in metrics}
        bins = [row["wait_bins"] for row in rows if row.get("wait_bins") is not None]
        if bins:
            highest[name]["wait_bins"] = bins[-1]
    mode = samples[-1].get("mode") if samples else None
    return {"mode": mode, "queues": highest, "median": middle}


def _of(rows: Sequence[Mapping[str, Any]], metric: str, pick: Any) -> Any:
    known = [row[metric] for row in rows if row.get(metric) is not None]
    return pick(known) if known else None

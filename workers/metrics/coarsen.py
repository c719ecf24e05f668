"""How do many fine samples become one coarse one? Maximum and median, never an average that hides a peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

GAUGES = ("oldest_age_ms", "depth", "delayed", "spilled", "in_flight", "bytes", "cost_ms")
RATES = ("offered", "accepted", "refused", "shed", "degraded", "started", "succeeded", "failed", "goodput")
WAITS = ("p50", "p95", "p99")
CALLS = ("limit", "in_flight", "mean_ms")  # of a downstream; mean_ms of the window that moved its limit last
ANSWERS = ("answered", "dropped")


def make_sample(frame: Mapping[str, Any]) -> dict[str, Any]:
    """One frame's figures as they are kept: a queue's or downstream's metrics; null is unknown."""
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
    downstreams = {row["name"]: _calls(row) for row in frame.get("downstreams") or ()}
    return {"mode": frame["mode"], "queues": queues, "downstreams": downstreams}


def _calls(row: Mapping[str, Any]) -> dict[str, Any]:
    figures: dict[str, Any] = {name: row[name] for name in CALLS}
    figures |= {name: row["rates"].get(name) for name in ANSWERS}
    return figures | {f"latency_{name}": row["latency_ms"].get(name) for name in ("p50", "p99")}


def coarsen(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`queues` and `downstreams` hold the maxima, `median` and `downstream_median` the medians.

    Unknown values count for neither. Samples of before there were downstreams have none.
    """
    highest, middle = _reduce(samples, "queues", "median")
    for name, figures in highest.items():
        rows = [sample["queues"][name] for sample in samples if name in sample["queues"]]
        bins = [row["wait_bins"] for row in rows if row.get("wait_bins") is not None]
        if bins:
            figures["wait_bins"] = bins[-1]
    calls, calls_middle = _reduce(samples, "downstreams", "downstream_median")
    mode = samples[-1].get("mode") if samples else None
    parts = {"queues": highest, "median": middle, "downstreams": calls, "downstream_median": calls_middle}
    return {"mode": mode, **parts}


Figures = dict[str, dict[str, Any]]


def _reduce(samples: Sequence[Mapping[str, Any]], part: str, median_part: str) -> tuple[Figures, Figures]:
    found = [sample.get(part) or {} for sample in samples]
    highest: Figures = {}
    middle: Figures = {}
    for name in dict.fromkeys(name for figures in found for name in figures):
        rows = [figures[name] for figures in found if name in figures]
        known = [sample.get(median_part) or {} for sample in samples]
        medians = [figures[name] for figures in known if name in figures] or rows
        metrics = dict.fromkeys(metric for row in rows for metric in row if metric != "wait_bins")
        highest[name] = {metric: _of(rows, metric, max) for metric in metrics}
        middle[name] = {metric: _of(medians, metric, median) for metric in metrics}
    return highest, middle


def _of(rows: Sequence[Mapping[str, Any]], metric: str, pick: Any) -> Any:
    known = [row[metric] for row in rows if row.get(metric) is not None]
    return pick(known) if known else None

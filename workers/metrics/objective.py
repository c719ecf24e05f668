"""Is the completion promise kept? From the waits of the last 60 s and the time that runs take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .percentiles import Bins, BinValue, sorted_bins


def attainment(
    policy: Mapping[str, Any], waits: Bins, *, run_ms: float | None, bin_value: BinValue
) -> dict[str, Any] | None:
    """The share of jobs begun in the last 60 s whose wait left time for a usual run; None without a promise.

    Modeled, since waits and runs are counted apart: a slow run is taken for a usual one.
    """
    promised_s, share = policy.get("objective_s"), policy.get("objective_share")
    if promised_s is None or share is None:
        return None
    ordered = sorted_bins(waits)
    begun = sum(count for _, count in ordered)
    part: dict[str, Any] = {
        "objective_s": promised_s,
        "objective_share": share,
        "attained": None,
        "of": begun,
    }
    part["modeled"] = True
    if not begun or run_ms is None:
        why = "no run time measured yet" if begun else "nothing started in the last 60 s"
        return {**part, "unknown": {"attained": why}}
    in_time = sum(count for number, count in ordered if bin_value(number) + run_ms <= 1000 * promised_s)
    return {**part, "attained": round(in_time / begun, 4)}

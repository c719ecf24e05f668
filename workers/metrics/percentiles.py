"""What did the middle, the slow and the slowest wait, over the last 60 s?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Bins = Mapping[Any, Any]
BinValue = Callable[[int], float]

SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def sorted_bins(bins: Bins) -> list[tuple[int, int]]:
    """(bin, count) in order, empty ones left out; JSON makes the bin numbers text."""
    return sorted((int(key), int(count)) for key, count in bins.items() if int(count) > 0)


def percentile(bins: Bins, share: float, *, bin_value: BinValue) -> int | None:
    """The value of the first bin at which the share of all is reached; whole ms."""
    ordered = sorted_bins(bins)
    total = sum(count for _, count in ordered)
    if not total:
        return None
    reached = 0
    for number, count in ordered:
        reached += count
        if reached >= share * total:
            return round(bin_value(number))
    return round(bin_value(ordered[-1][0]))


def percentiles(bins: Bins, *, bin_value: BinValue, nothing: str) -> dict[str, Any]:
    """p50, p95 and p99; null with the reason when nothing was counted."""
    values: dict[str, Any] = {
        name: percentile(bins, share, bin_value=bin_value) for name, share in SHARES.items()
    }
    if values["p50"] is None:
        values["unknown"] = dict.fromkeys(SHARES, nothing)
    return values


def mean_value(bins: Bins, *, bin_value: BinValue) -> float | None:
    ordered = sorted_bins(bins)
    total = sum(count for _, count in ordered)
    return sum(bin_value(number) * count for number, count in ordered) / total if total else None


def spread(bins: Bins, *, bin_value: BinValue) -> float | None:
    """Standard deviation of the binned values, in ms."""
    mean = mean_value(bins, bin_value=bin_value)
    if mean is None:
        return None
    ordered = sorted_bins(bins)
    total = sum(count for _, count in ordered)
    return float((sum(count * (bin_value(number) - mean) ** 2 for number, count in ordered) / total) ** 0.5)

"""Do bins give back the waits that went into them?"""

from __future__ import annotations

import pytest

from workers.metrics.percentiles import mean_value, percentile, percentiles
from workers.store.bins import bin_of_ms, bin_value_ms


def test_percentiles_are_within_a_bins_width() -> None:
    bins: dict[int, int] = {}
    for ms in range(1, 1001):
        bins[bin_of_ms(ms)] = bins.get(bin_of_ms(ms), 0) + 1
    assert percentile(bins, 0.5, bin_value=bin_value_ms) == pytest.approx(500, rel=0.08)
    assert percentile(bins, 0.99, bin_value=bin_value_ms) == pytest.approx(990, rel=0.08)
    assert mean_value(bins, bin_value=bin_value_ms) == pytest.approx(500, rel=0.05)


def test_text_keys_are_read_as_numbers() -> None:
    assert percentile({"10": 1, "9": 9}, 0.5, bin_value=float) == 9


def test_nothing_counted_is_null_with_its_reason() -> None:
    assert percentiles({}, bin_value=bin_value_ms, nothing="none") == {
        "p50": None,
        "p95": None,
        "p99": None,
        "unknown": {"p50": "none", "p95": "none", "p99": "none"},
    }

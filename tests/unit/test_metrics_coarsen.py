"""Is a peak still seen when many samples become one?"""

from __future__ import annotations

from workers.metrics.coarsen import coarsen


def sample(depth: int | None, **more: object) -> dict[str, object]:
    return {"mode": "normal", "queues": {"q": {"depth": depth, **more}}}


def test_the_maximum_and_the_median_are_kept() -> None:
    made = coarsen([sample(1), sample(2), sample(90)])
    assert made["queues"]["q"]["depth"] == 90
    assert made["median"]["q"]["depth"] == 2


def test_unknown_counts_for_neither() -> None:
    assert coarsen([sample(None), sample(4)])["queues"]["q"]["depth"] == 4
    assert coarsen([sample(None)])["queues"]["q"]["depth"] is None


def test_coarser_still_takes_the_median_of_medians_and_the_maximum_of_maxima() -> None:
    minute = coarsen(
        [coarsen([sample(1), sample(1), sample(50)]), coarsen([sample(3)]), coarsen([sample(5)])]
    )
    assert minute["queues"]["q"]["depth"] == 50
    assert minute["median"]["q"]["depth"] == 3


def test_the_newest_bins_are_kept() -> None:
    made = coarsen([sample(1, wait_bins={"3": 1}), sample(1), sample(1, wait_bins={"3": 2})])
    assert made["queues"]["q"]["wait_bins"] == {"3": 2}


def test_a_downstream_s_limit_is_kept_beside_and_a_sample_of_before_has_none() -> None:
    def calls(limit: int, mean_ms: float | None) -> dict[str, object]:
        return {**sample(1), "downstreams": {"bank": {"limit": limit, "mean_ms": mean_ms}}}

    tens = coarsen([sample(1), calls(4, None), calls(5, 210.0), calls(9, 650.0)])
    assert tens["downstreams"]["bank"] == {"limit": 9, "mean_ms": 650.0}
    assert tens["downstream_median"]["bank"] == {"limit": 5, "mean_ms": 430.0}
    minute = coarsen([tens, coarsen([calls(2, 100.0)]), coarsen([calls(3, 100.0)])])
    assert minute["downstreams"]["bank"]["limit"] == 9
    assert minute["downstream_median"]["bank"]["limit"] == 3

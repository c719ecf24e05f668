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

"""Are rates null with a reason whenever they cannot be told?"""

from __future__ import annotations

from tests.unit.snapshot_maker import Plant, make_queue, make_snapshot
from workers.metrics.history import History
from workers.metrics.rates import queue_rates, sum_rates


def history_of(*points: tuple[float, int]) -> History:
    history = History()
    for at_s, accepted in points:
        history.add(
            make_snapshot(at_s, {"normal": make_queue(totals={"accepted": accepted, "offered": accepted})})
        )
    return history


def test_a_rate_is_per_second_over_the_last_five() -> None:
    history = history_of(*[(second, 10 * second) for second in range(8)])
    assert queue_rates(history, "normal")["accepted"] == 10.0


def test_there_is_no_rate_until_there_are_enough_samples() -> None:
    rates = queue_rates(history_of((0, 0), (1, 10)), "normal")
    assert rates["accepted"] is None
    assert rates["unknown"]["accepted"] == "not enough samples yet"


def test_a_counter_that_went_back_is_null_and_never_negative() -> None:
    points = [(second, 100 + second) for second in range(7)] + [(7, 3), (8, 4)]
    rates = queue_rates(history_of(*points), "normal")
    assert rates["accepted"] is None
    assert "Redis lost data" in rates["unknown"]["accepted"]


def test_rates_come_back_once_the_loss_is_five_seconds_old() -> None:
    points = [(second, 100 + second) for second in range(7)] + [
        (second, 2 * second) for second in range(7, 14)
    ]
    assert queue_rates(history_of(*points), "normal")["accepted"] == 2.0


def test_a_gap_in_the_samples_gives_no_rate_over_it() -> None:
    rates = queue_rates(history_of((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (45, 400)), "normal")
    assert rates["accepted"] is None
    assert rates["unknown"]["accepted"] == "a gap in the samples"


def test_a_queue_that_vanished_from_redis_counts_as_loss() -> None:
    history = history_of(*[(second, second) for second in range(7)])
    history.add(make_snapshot(7, {}))
    assert "Redis lost data" in history.cut_reason


def test_a_sum_is_unknown_as_soon_as_a_part_is() -> None:
    total = sum_rates([{"offered": 1.0}, {"offered": None, "unknown": {"offered": "why"}}], ["offered"])
    assert total == {"offered": None, "unknown": {"offered": "why"}}
    assert sum_rates([{"offered": 1.0}, {"offered": 2.5}], ["offered"]) == {"offered": 3.5}


def test_history_is_bounded() -> None:
    plant = Plant(service_ms=100, slots=1)
    for second in range(200):
        plant.now_s = float(second)
        plant.sample()
    assert len(plant.history.snapshots) <= 72

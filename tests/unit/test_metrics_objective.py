"""Is the promise's attainment told from what was counted, and is its burn rate that of both windows?"""

from __future__ import annotations

import pytest

from workers.metrics.objective import FAST, SLOW, STEP_MS, WINDOWS, Promises, alert_value, attainment

POLICY = {"objective_s": 5.0, "objective_share": 0.99}
MINUTE_MS = 60_000


def watched(*minutes: tuple[int, int], begin_ms: int = 1_000_000) -> Promises:
    """Counters that grow by (promised, in objective) in each minute, a point each step."""
    promises, total, kept = Promises(), 0, 0
    promises.add(begin_ms, {"q": (0, 0)})
    for minute, (promised, in_time) in enumerate(minutes):
        for step in range(MINUTE_MS // STEP_MS):
            at_ms = begin_ms + minute * MINUTE_MS + (step + 1) * STEP_MS
            share = (step + 1) * STEP_MS / MINUTE_MS
            promises.add(at_ms, {"q": (total + round(promised * share), kept + round(in_time * share))})
        total, kept = total + promised, kept + in_time
    return promises


def test_attainment_is_what_settled_in_time_over_the_last_hour() -> None:
    part = attainment(POLICY, watched(*[(100, 50)] * 10, *[(100, 99)] * 60), "q")
    assert part is not None
    assert (part["attained"], part["of"], part["over_s"]) == (0.99, 6000, 3600)
    assert part["burn_rate"]["1h"] == pytest.approx(1.0)
    assert "modeled" not in part


def test_a_burn_rate_of_one_window_alone_raises_nothing() -> None:
    over = attainment(POLICY, watched(*[(100, 50)] * 30, *[(100, 100)] * 6), "q")
    begun = attainment(POLICY, watched(*[(100, 100)] * 58, *[(100, 50)] * 2), "q")
    lasting = attainment(POLICY, watched(*[(100, 80)] * 60), "q")
    assert over is not None and over["burn_rate"]["1h"] > 14.4
    assert alert_value(over, FAST) == 0.0
    assert begun is not None and begun["burn_rate"]["5m"] > 14.4
    assert (alert_value(begun, FAST) or 0) < 14.4
    assert alert_value(lasting, FAST) == alert_value(lasting, SLOW) == pytest.approx(20.0)


def test_what_is_too_little_is_unknown_with_its_reason() -> None:
    fresh = attainment(POLICY, Promises(), "q")
    few = attainment(POLICY, watched((3, 0)), "q")
    assert fresh is not None and few is not None
    assert fresh["burn_rate"]["unknown"]["5m"] == "not watched long enough"
    assert few["burn_rate"]["unknown"]["1h"] == "fewer than 10 have settled"
    assert fresh["unknown"] == {"attained": "nothing promised has settled in the last hour"}
    assert alert_value(few, FAST) is None
    assert alert_value(None, FAST) is None
    assert attainment({"objective_s": None}, Promises(), "q") is None


def test_a_promise_of_all_has_no_burn_rate() -> None:
    part = attainment({"objective_s": 1, "objective_share": 1.0}, watched((100, 99)), "q")
    assert part is not None
    assert part["burn_rate"]["unknown"]["1h"] == "a promise of all leaves nothing to burn"


def test_the_points_are_bounded_and_a_loss_begins_anew() -> None:
    promises = watched(*[(60, 60)] * 400)
    assert len(promises.points) <= max(WINDOWS.values()) // STEP_MS + 3
    promises.add(promises.points[-1][0] + 1000, {"q": (5, 5)})
    assert len(promises.points) == 1


def test_a_monitor_goes_on_from_what_was_written_down() -> None:
    fresh, earlier = Promises(), watched(*[(100, 90)] * 60)
    at_ms = earlier.points[-1][0]
    fresh.add(at_ms + 5000, {"q": (6100, 5490)})
    fresh.take_earlier(list(earlier.points))
    part = attainment(POLICY, fresh, "q")
    assert part is not None
    assert part["burn_rate"]["1h"] == pytest.approx(10.0, rel=0.01)
    fresh.take_earlier([(at_ms - 9_000_000, {"q": (9999, 1)})])  # of another life of Redis
    assert all(point[1]["q"][0] <= 6100 for point in fresh.points)

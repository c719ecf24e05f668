"""What does a mode leave of the bounds?"""

from __future__ import annotations

from workers.modes.effect import admits, bounds_in_force, full_bounds, in_force

POLICY = {"max_count": 100, "max_bytes": None, "max_cost_ms": 5000, "max_age_s": 60.0, "saturated_share": 0.5}


def test_saturated_takes_its_share_of_room_and_leaves_the_age_promise() -> None:
    assert bounds_in_force(POLICY, "saturated") == {
        "count": 50,
        "bytes": None,
        "cost_ms": 2500,
        "age_s": 60.0,
    }


def test_a_share_of_zero_admits_nothing() -> None:
    closed = {**POLICY, "saturated_share": 0.0}
    assert not admits(closed, "saturated")
    assert bounds_in_force(closed, "saturated")["count"] == 0


def test_draining_admits_what_policy_marks() -> None:
    assert not admits(POLICY, "draining")
    assert admits({**POLICY, "admit_while_draining": True}, "draining")


def test_max_wait_bounds_the_cost_by_the_measured_rate() -> None:
    assert full_bounds({"max_wait_s": 10}, work_rate=200.0)["cost_ms"] == 2000
    assert full_bounds({"max_wait_s": 10}, work_rate=None)["cost_ms"] is None


def test_the_stricter_of_installation_and_queue_is_in_force() -> None:
    modes = {"*": {"mode": "saturated"}, "bulk": {"mode": "draining"}, "normal": {"mode": "normal"}}
    assert in_force(modes, "bulk", now_ms=0)[0] == "draining"
    assert in_force(modes, "normal", now_ms=0)[0] == "saturated"


def test_a_mode_past_its_end_counts_no_longer() -> None:
    assert in_force({"*": {"mode": "draining", "until_at_ms": 5}}, "*", now_ms=5) == ("normal", None)

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


MODEL = {"work_rate": 200.0, "job_rate": 2.0, "least_wait_s": 0.1}


def test_max_wait_bounds_count_and_cost_by_the_measured_rates() -> None:
    bounds = full_bounds({"max_wait_s": 10}, model=MODEL)
    assert (bounds["count"], bounds["cost_ms"]) == (20, 2000)
    assert full_bounds({"max_wait_s": 10, "max_count": 5}, model=MODEL)["count"] == 5


def test_before_anything_is_measured_max_wait_bounds_by_the_prior() -> None:
    assert full_bounds({"max_wait_s": 10})["count"] == 10 * 4 * 1000 / 100


def test_a_downstream_takes_its_part_of_the_stated_bounds_only() -> None:
    model = {**MODEL, "downstream_share": 0.25}
    policy = {"max_count": 100, "max_bytes": 1000, "max_cost_ms": 400, "max_wait_s": 10, "downstream": "bank"}
    bounds = bounds_in_force(policy, "normal", model=model)
    # What the wait allows is measured behind the downstream; it is not cut twice.
    assert bounds == {"count": 20, "bytes": 1000, "cost_ms": 100, "age_s": None}
    assert bounds_in_force({**policy, "downstream": None}, "normal", model=model)["cost_ms"] == 400


def test_the_stricter_of_installation_and_queue_is_in_force() -> None:
    modes = {"*": {"mode": "saturated"}, "bulk": {"mode": "draining"}, "normal": {"mode": "normal"}}
    assert in_force(modes, "bulk", now_ms=0)[0] == "draining"
    assert in_force(modes, "normal", now_ms=0)[0] == "saturated"


def test_a_mode_past_its_end_counts_no_longer() -> None:
    assert in_force({"*": {"mode": "draining", "until_at_ms": 5}}, "*", now_ms=5) == ("normal", None)

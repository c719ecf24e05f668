"""Is the promise's attainment told from what was measured, and only then?"""

from __future__ import annotations

from workers.metrics.objective import attainment
from workers.store.bins import bin_of_ms, bin_value_ms

POLICY = {"objective_s": 5.0, "objective_share": 0.99}


def test_a_wait_that_leaves_time_for_a_run_keeps_the_promise() -> None:
    waits = {bin_of_ms(1000): 3, bin_of_ms(4900): 1}
    part = attainment(POLICY, waits, run_ms=500.0, bin_value=bin_value_ms)
    assert part is not None
    assert (part["attained"], part["of"], part["modeled"]) == (0.75, 4, True)


def test_without_runs_or_waits_it_is_unknown_with_the_reason() -> None:
    idle = attainment(POLICY, {}, run_ms=500.0, bin_value=bin_value_ms)
    assert idle is not None
    assert idle["unknown"] == {"attained": "nothing started in the last 60 s"}
    cold = attainment(POLICY, {3: 1}, run_ms=None, bin_value=bin_value_ms)
    assert cold is not None
    assert cold["unknown"] == {"attained": "no run time measured yet"}


def test_without_a_promise_there_is_nothing_to_attain() -> None:
    assert attainment({"objective_s": None}, {3: 1}, run_ms=1.0, bin_value=bin_value_ms) is None

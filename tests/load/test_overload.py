"""Does the overload of both stacks offer both the same, and tell what became of it without flattery?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from workers.admission.policy import parse_policy
from workers.bench.overload import DEADLINE_S, POLICIES, Done, Plan, find_worse, judge
from workers.bench.report import format_minute

OFFERS: dict[str, Any] = {"offered": {"urgent": 3, "bulk": 4}, "refused": {"bulk count": 2}, "late_ms": 4.0}


def test_arrivals_are_the_same_each_time_in_order_and_follow_the_load() -> None:
    plan = Plan(minutes=4)
    arrivals = list(plan.arrivals())
    assert arrivals == list(plan.arrivals())
    assert [at for at, _ in arrivals] == sorted(at for at, _ in arrivals)
    minutes = Counter((int(at // 60), queue) for at, queue in arrivals)
    assert [plan.load_at(60.0 * n) for n in range(4)] == [10, 0.5, 10, 0.5]
    assert minutes[0, "bulk"] > 15 * minutes[1, "bulk"]
    assert minutes[0, "urgent"] == pytest.approx(minutes[1, "urgent"], rel=0.4)
    assert 60 < plan.deploy_at_s < 120


def test_what_ran_late_is_not_in_time_and_what_never_ran_has_waited_for_ever() -> None:
    done = [
        Done("urgent", 1, 0.010, 0.110),
        Done("urgent", 1, 0.020, 0.120),
        Done("bulk", 1, DEADLINE_S - 1, DEADLINE_S + 1),
        Done("bulk", 1, 1.0, 3.0),
    ]
    row = judge(done, [OFFERS])
    assert (row["in_time"], row["in_time_by_queue"]) == (3, {"urgent": 2, "bulk": 1})
    assert (row["urgent_p50_ms"], row["urgent_p99_ms"]) == (20.0, None)
    assert row["refused"] == {"bulk count": 2}


def test_each_figure_in_which_the_gate_is_behind_is_named() -> None:
    never, quick = ({"in_time": 5, "urgent_p99_ms": p99} for p99 in (None, 3.0))
    assert find_worse(quick, quick) == []
    assert find_worse(quick, never) == []
    assert find_worse(never, {**quick, "in_time": 6}) == ["in_time", "urgent_p99_ms"]


def test_a_row_says_what_was_measured_and_where_the_gate_is_behind() -> None:
    side = judge([Done("urgent", 1, 0.010, 0.110)], [OFFERS]) | {"waiting": 7}
    row = {"minute": 3, "load": 10.0, "offered": 7, "deploy": True, "modes": ["normal", "saturated"]}
    text = format_minute({**row, "gate": side, "stock": side, "gate_is_worse_in": ["in_time"]})
    assert "never" in text
    assert text.endswith("normal, saturated, deploy  gate behind: in_time")


def test_the_policies_of_the_gate_are_ones_that_can_be_set() -> None:
    assert all(parse_policy(fields) for fields in POLICIES.values())

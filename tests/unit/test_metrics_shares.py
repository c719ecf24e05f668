"""Is a class's share of what is done told truly, and not from a handful of runs?"""

from __future__ import annotations

from typing import Any

from workers.metrics.history import History
from workers.metrics.shares import completion_shares

POLICIES = {"critical": {"strict_rank": 0}, "normal": {"weight": 3}, "bulk": {"weight": 1}}


def snapshot(at_ms: int, **done: tuple[int, int]) -> dict[str, Any]:
    queues = {
        name: {
            "totals": {"succeeded": done.get(name, (0, 0))[0]},
            "service_ms_sum": done.get(name, (0, 0))[1],
        }
        for name in POLICIES
    }
    return {"now_ms": at_ms, "queues": queues, "policies": POLICIES}


def history(*snapshots: dict[str, Any]) -> History:
    found = History()
    for each in snapshots:
        found.add(each)
    return found


def test_shares_are_of_what_ended_in_the_window() -> None:
    found = completion_shares(
        history(snapshot(0, normal=(50, 50)), snapshot(30_000, normal=(80, 950), bulk=(10, 300)))
    )
    assert (found["normal"]["done"], found["bulk"]["done"], found["critical"]["done"]) == (0.75, 0.25, 0.0)
    assert (found["normal"]["work"], found["bulk"]["work"]) == (0.75, 0.25)
    assert (found["normal"]["by_weight"], found["bulk"]["by_weight"]) == (0.75, 0.25)
    assert found["critical"]["unknown"] == {"by_weight": "has a strict rank"}
    assert (found["normal"]["of"], found["normal"]["over_ms"]) == (40, 30_000)


def test_a_handful_of_runs_says_nothing() -> None:
    found = completion_shares(history(snapshot(0), snapshot(1_000, normal=(29, 290))))
    assert found["normal"]["done"] is None
    assert "only 29 runs ended" in found["normal"]["unknown"]["done"]
    assert (
        completion_shares(history(snapshot(0)))["bulk"]["unknown"]["done"] == "nothing ended in the last 60 s"
    )

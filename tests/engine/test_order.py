"""Who goes first, who is held back, and who is shed: do the scripts choose as the policy says?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from workers.simulate import Arrival, SteppedStore, World
from workers.store import Offer, Settlement

from . import audit
from .conftest import publish


@pytest.fixture
def gate(redis_url: str) -> Iterator[SteppedStore]:
    """A gate whose clock the test moves; what it holds at the end must add up."""
    store = SteppedStore.from_url(redis_url, "simulated")
    publish(store, {"normal": {"weight": 3}, "bulk": {"weight": 1}})
    yield store
    faults = audit.find_faults(store)
    store.client.close()
    assert not faults, "\n".join(faults[:20])


def offer(name: str, queue: str = "normal", **facts: Any) -> Offer:
    return Offer(name, facts.pop("task", "t"), queue, b"{}", **facts)


def claimed(gate: SteppedStore, most: int = 10, *queues: str) -> list[str]:
    return [job.id for job in gate.claim("w@h", queues or ("normal",), most)]


# Earliest deadline first.


def test_the_earliest_deadline_goes_first_and_who_has_none_goes_last(gate: SteppedStore) -> None:
    publish(gate, {"normal": {"order": "edf"}})
    gate.admit([offer("none-1"), offer("late", deadline_ms=90_000), offer("none-2")])
    gate.step(10)
    gate.admit([offer("soon", deadline_ms=5_000), offer("later", deadline_ms=95_000)])
    assert claimed(gate) == ["soon", "late", "later", "none-1", "none-2"]


def test_tenants_take_turns_whatever_their_deadlines_are(gate: SteppedStore) -> None:
    publish(gate, {"normal": {"order": "edf"}})
    for n in range(5):
        gate.admit([offer(f"a{n}", tenant="a", deadline_ms=1_000 + n, cost_ms=100)])
        gate.admit([offer(f"b{n}", tenant="b", deadline_ms=500_000 - n, cost_ms=100)])
    assert claimed(gate, 4) == ["a0", "b4", "a1", "b3"]


def test_a_passed_deadline_expires_and_a_returned_job_keeps_its_place(gate: SteppedStore) -> None:
    publish(gate, {"normal": {"order": "edf"}})
    gate.admit(
        [
            offer("gone", deadline_ms=1_000),
            offer("second", deadline_ms=5_000),
            offer("third", deadline_ms=9_000),
        ]
    )
    job = gate.claim("w@h", ["normal"], 2)
    gate.settle([Settlement(j.id, j.epoch, "released") for j in job])
    gate.step(2_000)
    assert claimed(gate) == ["second", "third"]
    found = gate.read_operation("gone")
    assert found is not None and found.status == "expired"


def test_changing_the_order_while_jobs_wait_reorders_them_too(gate: SteppedStore) -> None:
    gate.admit([offer(f"x{n}", deadline_ms=60_000 - n, tenant=f"t{n % 3}") for n in range(1_700)])
    publish(gate, {"normal": {"order": "edf"}})
    audit.check(gate)
    assert sorted(claimed(gate, 3)) == ["x1697", "x1698", "x1699"]
    publish(gate, {"normal": {"order": "fifo"}})
    audit.check(gate)
    assert sorted(claimed(gate, 3)) == ["x0", "x1", "x2"]


# A cap on a task.


def test_a_capped_task_never_runs_more_often_at_once_and_never_blocks_the_rest(gate: SteppedStore) -> None:
    publish(gate, {"normal": {"max_in_flight_per_task": {"big": 2}}})
    gate.admit([offer(f"big{n}", task="big") for n in range(70)] + [offer("small")])
    first = gate.claim("w@h", ["normal"], 3)
    assert [job.id for job in first[:2]] == ["big0", "big1"]
    found = [job.id for job in first[2:]]
    for _ in range(3):
        found += claimed(gate, 1)
    assert found == ["small"]
    assert gate.snapshot()["queues"]["normal"]["parked"] == 68
    gate.settle([Settlement(first[0].id, first[0].epoch, "succeeded", 1, 10)])
    assert claimed(gate) == ["big2"]


def test_a_cap_counts_what_runs_already_and_a_lifted_cap_lets_all_go(gate: SteppedStore) -> None:
    gate.admit([offer(f"big{n}", task="big") for n in range(6)])
    assert len(claimed(gate, 3)) == 3
    publish(gate, {"normal": {"max_in_flight_per_task": {"big": 3}}})
    assert claimed(gate) == []
    publish(gate, {"normal": {}})
    assert claimed(gate) == ["big3", "big4", "big5"]


# Controlled delay.

CODEL = {"codel_target_ms": 200, "codel_interval_ms": 1_000}


def test_a_burst_may_wait_an_interval_and_a_standing_queue_only_the_target(gate: SteppedStore) -> None:
    publish(gate, {"normal": CODEL})
    gate.admit([offer(f"x{n}") for n in range(10)])
    gate.step(900)
    assert claimed(gate, 1) == ["x0"]  # not standing yet: the burst may wait an interval
    gate.step(200)
    gate.admit([offer("young")])
    assert claimed(gate, 1) == ["young"]
    totals = gate.snapshot()["queues"]["normal"]["totals"]
    assert totals["shed"] == 9


def test_an_emptied_queue_begins_its_interval_anew(gate: SteppedStore) -> None:
    publish(gate, {"normal": CODEL})
    gate.admit([offer("a")])
    assert claimed(gate) == ["a"]
    gate.step(60_000)
    gate.admit([offer("b"), offer("c")])
    gate.step(700)
    assert claimed(gate, 1) == ["b"]


def test_the_last_job_is_never_shed_so_that_no_slot_idles(gate: SteppedStore) -> None:
    publish(gate, {"normal": CODEL})
    gate.admit([offer("a"), offer("b")])
    gate.step(60_000)
    assert claimed(gate, 1) == ["b"]


def overload(gate: SteppedStore, *, seconds: int) -> tuple[World, int]:
    """One and a half times what four slots of 100 ms can do, each job with two seconds to live."""
    world = World(gate, slots=4, queues=("normal",))
    jobs = [
        Arrival(round(n * 1000 / 60), offer(f"x{n}", deadline_ms=2_000, cost_ms=100), 100)
        for n in range(60 * seconds)
    ]
    world.run(jobs, until_ms=seconds * 1_000)
    return world, sum(job.in_time for job in world.ended if job.arrived_ms > 5_000)


def test_controlled_delay_keeps_the_goodput_of_an_overload(gate: SteppedStore) -> None:
    found = {}
    for name, policy, mode in (
        ("fifo", {}, "normal"),
        ("codel", {"codel_target_ms": 500, "codel_interval_ms": 1_000}, "normal"),
        ("lifo", {"order": "lifo", "age_ceiling_s": 2}, "saturated"),
        (
            "lifo and codel",
            {"order": "lifo", "codel_target_ms": 500, "codel_interval_ms": 1_000},
            "saturated",
        ),
    ):
        gate.clear()
        publish(gate, {"normal": policy})
        gate.set_mode("*", mode, by="o", reason="r")
        _, found[name] = overload(gate, seconds=20)
    best = 15 * 40  # what four slots can do in the last 15 s
    print({name: f"{number / best:.0%}" for name, number in found.items()})
    assert found["fifo"] < 0.5 * best, found
    for name in ("codel", "lifo", "lifo and codel"):
        assert found[name] > 0.9 * best, found

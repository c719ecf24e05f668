"""Is a downstream's limit found, kept over all claims, and taught by the right things?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from workers.forecast.allocation import Through
from workers.forecast.drain import forecast
from workers.forecast.load import read_load
from workers.limits.downstream import parse_downstream
from workers.loops.frame.dispatch import rules_of
from workers.loops.frame.workers import live_slots
from workers.loops.modeler import model_all
from workers.metrics.history import History
from workers.simulate import Arrival, SteppedStore, World
from workers.store import Claimed, Offer, Settlement, Store
from workers.store.bins import bin_value_ms

from . import audit
from .conftest import publish

QUEUES = {"normal": {"weight": 3, "downstream": "bank"}, "bulk": {"weight": 1}}


def make(store: Store, name: str = "bank", **settings: Any) -> None:
    store.publish_downstream(name, parse_downstream(settings).as_fields(), version=1)


@pytest.fixture
def gate(redis_url: str) -> Iterator[SteppedStore]:
    """A gate whose clock the test moves; what it holds at the end must add up."""
    store = SteppedStore.from_url(redis_url, "simulated")
    publish(store, QUEUES)
    yield store
    faults = audit.find_faults(store)
    store.client.close()
    assert not faults, "\n".join(faults[:20])


def offer(number: int, queue: str = "normal", **facts: Any) -> Offer:
    return Offer(f"{queue}-{number}", facts.pop("task", "t"), queue, b"{}", **facts)


def row(store: Store, name: str = "bank") -> dict[str, Any]:
    return next(d for d in store.snapshot()["downstreams"] if d["name"] == name)


def end(store: Store, job: Claimed, outcome: str = "succeeded", **facts: Any) -> str:
    facts.setdefault("run_ms", 10)
    facts.setdefault("started_at_ms", 1)
    return store.settle([Settlement(job.id, job.epoch, outcome, **facts)])[0]


def test_no_more_are_in_flight_than_the_limit_over_all_claims(gate: SteppedStore) -> None:
    make(gate, initial=3)
    gate.admit([offer(n) for n in range(10)])
    first = gate.claim("a", ["normal"], 2)
    second = gate.claim("b", ["normal"], 5)
    assert (len(first), len(second)) == (2, 1)
    assert gate.claim("c", ["normal"], 5) == []
    assert row(gate)["in_flight"] == 3
    end(gate, first[0])
    assert len(gate.claim("c", ["normal"], 5)) == 1


def test_a_full_downstream_leaves_the_slots_to_other_queues(gate: SteppedStore) -> None:
    make(gate, initial=1)
    gate.admit([offer(n) for n in range(4)] + [offer(n, "bulk") for n in range(2)])
    assert sorted(job.queue for job in gate.claim("a", ["normal", "bulk"], 4)) == ["bulk", "bulk", "normal"]


@pytest.mark.parametrize("way", ["reaped", "released", "failed", "retried", "cancelled"])
def test_every_end_of_a_lease_gives_its_call_back(gate: SteppedStore, way: str) -> None:
    make(gate, initial=1)
    gate.admit([offer(1)])
    job = gate.claim("a", ["normal"], 1)[0]
    if way == "reaped":
        gate.step(60_000)
        assert gate.reap(10)[0]["id"] == job.id
    elif way == "retried":
        gate.admit([offer(1, retries=1)])
        assert end(gate, job, "retry") == "retried"
    elif way == "cancelled":
        gate.cancel(job.id, by="o")
        assert end(gate, job, "cancelled") == "settled"
    else:
        end(gate, job, way)
    assert row(gate)["in_flight"] == 0
    assert row(gate)["answered"] == 0  # none of these says how much the downstream bears


def test_a_task_of_its_own_downstream_is_set_aside_and_never_looked_past_twice(gate: SteppedStore) -> None:
    make(gate, "mail", initial=1)
    gate.admit([offer(n, "bulk", downstream="mail") for n in range(100)] + [offer(900, "bulk")])
    assert [job.id for job in gate.claim("a", ["bulk"], 1)] == ["bulk-0"]
    for _ in range(3):  # at most fifty are set aside in one claim
        found = gate.claim("b", ["bulk"], 1)
        if found:
            break
    assert [job.id for job in found] == ["bulk-900"]
    assert gate.snapshot()["queues"]["bulk"]["parked"] == 99
    before = gate.client.info("commandstats")["cmdstat_zpopmin"]["calls"]
    assert gate.claim("b", ["bulk"], 1) == []
    assert gate.client.info("commandstats")["cmdstat_zpopmin"]["calls"] - before <= 1
    audit.check(gate)
    operation = gate.read_operation("bulk-1")
    assert operation is not None
    assert (operation.status, operation.phase, operation.held_back_by) == ("pending", "blocked", "s:mail")


def test_set_aside_jobs_come_back_oldest_first_and_count_in_the_age(gate: SteppedStore) -> None:
    make(gate, "mail", initial=1)
    gate.admit([offer(0, "bulk", downstream="mail"), offer(1, "bulk", downstream="mail")])
    job = gate.claim("a", ["bulk"], 5)[0]
    gate.step(5_000)
    gate.admit([offer(2, "bulk", downstream="mail")])
    assert gate.claim("a", ["bulk"], 5) == []
    snapshot = gate.snapshot()
    assert snapshot["now_ms"] - snapshot["queues"]["bulk"]["oldest_eligible_at_ms"] == 5_000
    end(gate, job)
    assert [found.id for found in gate.claim("a", ["bulk"], 5)] == ["bulk-1"]


@pytest.mark.parametrize("calls", [1, 4])
def test_what_a_task_calls_slows_its_queue_s_forecast_and_its_times_to_come_back(
    gate: SteppedStore, calls: int
) -> None:
    publish(gate, {"bulk": {"weight": 1, "max_count": 40}})
    make(gate, "mail", initial=calls, min=calls, max=calls)
    gate.renew("w", {"slots": 8, "queues": ["bulk"]}, [])
    gate.admit([offer(n, "bulk", downstream="mail", cost_ms=100) for n in range(40)])
    for _ in range(3):  # at most fifty are set aside in one claim
        gate.claim("w", ["bulk"], 8)
    history = History()
    for _ in range(9):
        gate.step(1_000)
        gate.renew("w", {"slots": 8, "queues": ["bulk"]}, [])
        history.add(gate.snapshot())
    snapshot = history.latest
    assert snapshot is not None
    assert snapshot["queues"]["bulk"]["set_aside"] == {"mail": 40 - calls}
    rules = rules_of(snapshot)
    assert rules["bulk"].through == (Through("mail", calls, 1.0),)
    load = read_load(history, "bulk", bin_value=bin_value_ms)
    assert load is not None
    outlook = forecast([load], rules, total_slots=live_slots(snapshot))["bulk"]
    assert (outlook.state, outlook.seconds) == ("draining", pytest.approx(load.work_ms / 1000 / calls))
    figures = model_all(history, snapshot)["bulk"]
    assert figures["service_rate_per_s"] == pytest.approx(10 * calls)  # of 100 ms each, in `calls` of 8 slots
    gate.publish_model("bulk", figures)
    refused = gate.admit([offer(n, "bulk") for n in range(100, 100 + calls + 1)])[-1]
    assert (refused.reason, refused.retry_after_s) == ("count", pytest.approx(0.1 / calls, abs=0.002))


def test_set_aside_jobs_can_be_cancelled_purged_and_superseded(gate: SteppedStore) -> None:
    make(gate, "mail", initial=1)
    gate.publish_policy("bulk", {"weight": 1, "may_coalesce": True, "on_full": "coalesce"}, version=2)
    gate.admit([offer(n, "bulk", downstream="mail", coalesce_key=f"k{n}") for n in range(5)])
    gate.claim("a", ["bulk"], 5)
    assert gate.cancel("bulk-1", by="o").result == "cancelled"
    gate.admit([offer(9, "bulk", downstream="mail", coalesce_key="k2")])
    operation = gate.read_operation("bulk-2")
    assert operation is not None and operation.status == "superseded"
    audit.check(gate)
    assert gate.purge("bulk", by="o") == 3
    assert gate.snapshot()["queues"]["bulk"]["parked"] == 0


def test_where_all_was_set_aside_the_oldest_of_it_makes_room(gate: SteppedStore) -> None:
    make(gate, "mail", initial=1)
    gate.publish_policy("bulk", {"weight": 1, "max_count": 3, "on_full": "drop_oldest"}, version=2)
    gate.admit([offer(n, "bulk", downstream="mail") for n in range(3)])
    assert [job.id for job in gate.claim("a", ["bulk"], 5)] == ["bulk-0"]
    assert gate.snapshot()["queues"]["bulk"]["parked"] == 2
    assert gate.admit([offer(7, "bulk", downstream="mail")])[0].accepted  # there is room for one
    gate.claim("a", ["bulk"], 5)
    assert gate.admit([offer(8, "bulk", downstream="mail")])[0].accepted
    first, second = (gate.read_operation(f"bulk-{n}") for n in (1, 2))
    assert first is not None and second is not None
    assert (first.status, second.status) == ("shed", "pending")


def test_what_stands_aside_takes_the_part_of_the_bounds_that_is_let_work(gate: SteppedStore) -> None:
    make(gate, "mail", initial=1)
    gate.publish_policy("bulk", {"weight": 1, "max_count": 40, "max_cost_ms": 4_000}, version=2)
    gate.admit([offer(n, "bulk", downstream="mail") for n in range(9)])
    assert [job.id for job in gate.claim("a", ["bulk"], 4)] == ["bulk-0"]

    def modeled() -> dict[str, float | None]:
        history = History()
        for _ in range(9):
            gate.step(1_000)
            gate.renew("a", {"slots": 4, "queues": ["bulk"]}, [])
            history.add(gate.snapshot())
        assert history.latest is not None
        figures = model_all(history, history.latest)["bulk"]
        gate.publish_model("bulk", figures)
        return figures

    assert modeled()["through:mail"] == 0.25  # one call at a time of four slots
    for number in (20, 21):
        assert gate.admit([offer(number, "bulk", downstream="mail")])[0].accepted
        gate.claim("a", ["bulk"], 4)
    refused, other = gate.admit([offer(22, "bulk", downstream="mail"), offer(30, "bulk")])
    assert (refused.reason, refused.figures) == ("downstream", {"value": 11, "bound": 10})
    assert refused.unit == "jobs"
    assert other.accepted, "the rest of the bound is for what does not call it"
    # Of jobs that cost more, fewer.
    heavy = gate.admit([offer(23, "bulk", downstream="mail", cost_ms=500)])[0]
    assert (heavy.reason, heavy.figures["bound"]) == ("downstream", 10)
    gate.publish_policy("bulk", {"weight": 1, "max_count": 40, "on_full": "drop_oldest"}, version=3)
    assert gate.admit([offer(24, "bulk", downstream="mail")])[0].accepted
    shed, waits = gate.read_operation("bulk-1"), gate.read_operation("bulk-30")
    assert shed is not None and waits is not None
    assert (shed.status, waits.status) == ("shed", "pending"), "the oldest of its own kind makes room"
    # Nothing stands aside any more: the whole bound is theirs again, and the model forgets the name.
    gate.purge("bulk", by="o")
    assert modeled()["through:mail"] is None
    assert all(v.accepted for v in gate.admit([offer(n, "bulk", downstream="mail") for n in range(40, 70)]))


def test_a_full_redis_goes_on_with_what_was_accepted(gate: SteppedStore) -> None:
    gate.publish_policy("normal", {"downstream": "bank", "max_in_flight_per_task": {"t": 2}}, version=2)
    make(gate, initial=3, window_ms=100)
    make(gate, "mail", initial=1)
    gate.admit([offer(n) for n in range(6)] + [offer(n, "bulk", downstream="mail") for n in range(4)])
    gate.client.config_set("maxmemory", 1)
    try:
        done: list[str] = []
        while len(done) < 10:
            jobs = gate.claim("a", ["normal", "bulk"], 4)
            assert jobs, done
            gate.step(200)
            assert gate.report_call(jobs[0].id, jobs[0].epoch, "success", took_ms=5) == "taught"
            for job in jobs:
                assert end(gate, job) == "settled"
                done.append(job.id)
    finally:
        gate.client.config_set("maxmemory", 256 << 20)
    assert len(set(done)) == 10


def test_a_downstream_that_nobody_made_limits_nothing(gate: SteppedStore) -> None:
    gate.admit([offer(n, "bulk", downstream="nobody") for n in range(5)] + [offer(n) for n in range(5)])
    assert len(gate.claim("a", ["bulk", "normal"], 10)) == 10


def test_what_runs_already_counts_once_a_downstream_is_made(gate: SteppedStore) -> None:
    gate.admit([offer(n) for n in range(5)])
    jobs = gate.claim("a", ["normal"], 3)
    make(gate, initial=3)
    assert row(gate)["in_flight"] == 3
    assert gate.claim("a", ["normal"], 3) == []
    end(gate, jobs[0])
    assert len(gate.claim("a", ["normal"], 3)) == 1


def test_a_call_whose_record_was_deleted_by_hand_is_taken_back(gate: SteppedStore) -> None:
    publish(gate, {"normal": {"downstream": "bank", "max_in_flight_per_task": {"t": 1}}})
    make(gate, initial=1)
    gate.admit([offer(1), offer(2)])
    lost = gate.claim("a", ["normal"], 1)[0]
    record = gate.client.hget(gate.root + "ops", lost.id)
    gate.client.hdel(gate.root + "ops", lost.id)
    gate.step(60_000)
    gate.reap(10)
    assert gate.claim("a", ["normal"], 1) == []
    gate.sweep(["normal"])
    assert row(gate)["in_flight"] == 0
    assert [job.id for job in gate.claim("a", ["normal"], 1)] == ["normal-2"]
    # What was deleted is put back, so that the rest can be recounted.
    assert record is not None
    gate.client.hset(gate.root + "ops", lost.id, record)
    gate.client.zadd(gate.root + "leases", {lost.id: 1})
    gate.client.sadd(gate.root + "calls:bank", lost.id)
    gate.client.sadd(gate.root + "running:normal|t", lost.id)


def test_a_lowered_maximum_holds_at_once_and_a_removed_downstream_lets_all_go(gate: SteppedStore) -> None:
    make(gate, initial=8)
    gate.admit([offer(n) for n in range(20)])
    assert len(gate.claim("a", ["normal"], 4)) == 4
    make(gate, initial=2, max=2)
    assert row(gate)["limit"] == 2
    assert gate.claim("a", ["normal"], 4) == []
    gate.remove_downstream("bank")
    assert len(gate.claim("a", ["normal"], 4)) == 4


# What moves the limit. A window is 1 s; ``serve`` runs that many calls at a time in it.


def serve(gate: SteppedStore, calls: int, *, ms: int = 10, **facts: Any) -> None:
    """One window in which so many are in flight at once, each answered after so many ms."""
    gate.admit([offer(gate.now_ms * 1000 + n) for n in range(calls)])
    jobs = gate.claim("a", ["normal"], calls)
    gate.step(1_000)
    for job in jobs:
        end(gate, job, run_ms=ms, **facts)
    if len(jobs) < calls:
        gate.purge("normal", by="test")


def limits(gate: SteppedStore, windows: int, calls: int, **facts: Any) -> list[float]:
    found = []
    for _ in range(windows):
        serve(gate, calls, **facts)
        found.append(row(gate)["limit"])
    return found


def test_it_grows_by_one_a_window_while_it_is_used_and_the_target_is_kept(gate: SteppedStore) -> None:
    make(gate, target_ms=100, initial=4, max=6)
    assert limits(gate, 5, 20) == [4, 5, 6, 6, 6]  # the first answers open the first window


def test_it_does_not_grow_while_few_call(gate: SteppedStore) -> None:
    make(gate, target_ms=100, initial=10)
    assert set(limits(gate, 12, 2)) == {10}


def test_ten_slow_answers_in_flight_at_once_are_one_cut(gate: SteppedStore) -> None:
    make(gate, target_ms=100, initial=10, window_ms=100)
    gate.admit([offer(n) for n in range(30)])
    first = gate.claim("a", ["normal"], 10)
    gate.step(1_000)
    for job in first:
        end(gate, job, run_ms=1_000)
        gate.step(200)  # each in a window of its own
    assert row(gate)["cuts"] == 1
    assert row(gate)["limit"] == 9


def test_drops_cut_however_fast_they_come_and_ignored_ends_teach_nothing(gate: SteppedStore) -> None:
    make(gate, target_ms=100, initial=10)
    assert limits(gate, 3, 10, ms=1, outcome="failed", downstream="dropped")[-1] < 10
    stood = row(gate)["limit"]
    assert set(limits(gate, 3, 10, ms=5_000, outcome="failed", downstream="ignore")) == {stood}
    assert row(gate)["dropped"] > 0


def test_a_drop_among_many_answers_is_the_downstreams_own_fault(gate: SteppedStore) -> None:
    make(gate, target_ms=100, initial=40, max=40)
    for _ in range(3):
        gate.admit([offer(gate.now_ms * 1000 + n) for n in range(40)])
        jobs = gate.claim("a", ["normal"], 40)
        gate.step(1_000)
        end(gate, jobs[0], "failed", downstream="dropped")
        for job in jobs[1:]:
            end(gate, job)
    assert row(gate)["limit"] == 40


def test_what_a_task_reports_counts_in_place_of_its_run_time(gate: SteppedStore) -> None:
    make(gate, target_ms=100, initial=2, window_ms=100)
    for number in range(8):
        gate.admit([offer(number * 10 + n) for n in range(2)])
        jobs = gate.claim("a", ["normal"], 2)
        gate.step(1_000)
        for job in jobs:
            assert gate.report_call(job.id, job.epoch, "success", took_ms=20) == "taught"
            end(gate, job, run_ms=1_000)
    assert row(gate)["limit"] > 2
    assert row(gate)["answered"] == 16
    assert gate.report_call(jobs[0].id, jobs[0].epoch, "success", took_ms=20) == "stale"


def test_the_wait_at_the_gate_is_told_apart_from_the_latency(gate: SteppedStore) -> None:
    make(gate)
    gate.admit([offer(1)])
    gate.step(5_000)
    job = gate.claim("a", ["normal"], 1)[0]
    gate.step(50)
    end(gate, job, run_ms=50)
    found = row(gate)
    (latency,), (gated,) = found["latency_bins"], found["gated_bins"]
    assert gated > latency


@pytest.mark.parametrize("kind", ["aimd", "gradient"])
def test_it_finds_a_downstream_of_four_then_of_two_then_of_eight(gate: SteppedStore, kind: str) -> None:
    """Beyond its capacity calls queue inside the downstream: latency = 200 ms x calls / capacity."""
    make(gate, kind=kind, target_ms=240, initial=8, window_ms=400)
    begin, found = gate.now_ms, dict[int, list[float]]()

    def capacity() -> int:
        return (4, 2, 8)[min(2, (gate.now_ms - begin) // 12_000)]

    def look(store: SteppedStore) -> None:
        found.setdefault(capacity(), []).append(row(store)["limit"])

    world = World(
        gate,
        slots=12,
        queues=("normal",),
        service=lambda arrival, running: max(200, 200 * running // capacity()),
        on_tick=look,
    )
    world.run((Arrival(n * 24, offer(n)) for n in range(1_500)), until_ms=36_000)
    for size, seen in found.items():
        settled = seen[-3:]
        assert size <= min(settled) and max(settled) <= 1.2 * size + 1.5, (size, seen)

"""Do a real producer and a real worker see what a full queue, a deadline or a cancel makes of a job?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery.exceptions import TaskRevokedError

from workers.exceptions import AdmissionRefused

from .bench import POLICIES, Bench
from .test_workers import a_name


@pytest.fixture(scope="module")
def shared_bench() -> Iterator[Bench]:
    bench = Bench()
    # One slot, and a reserve behind it.
    bench.start_worker("prefork", slots=1, options=("--prefetch-multiplier", "3"))
    yield bench
    bench.close()


@pytest.fixture
def bench(shared_bench: Bench) -> Iterator[Bench]:
    yield shared_bench
    shared_bench.set_policies(POLICIES)
    shared_bench.await_rest()
    shared_bench.store.forget_spooled([row.id for row in shared_bench.store.read_quarantine_spool(1000)])


def busy(bench: Bench) -> str:
    """The worker's one slot and its reserve are taken for a moment."""
    first = bench.task("note").apply_async((a_name(), 1.5), queue="critical")
    for _ in range(2):
        bench.task("note").apply_async((a_name(), 0.01), queue="critical")
    bench.await_status(first.id, "running")
    return str(first.id)


def test_a_degraded_job_runs_as_the_cheaper_task_and_its_result_comes_back(bench: Bench) -> None:
    busy(bench)
    policy = {"max_count": 1, "on_full": "degrade", "degrade_to": "w.cheap", "degrade_queue": "bulk"}
    bench.store.publish_policy("normal", {**POLICIES["normal"], **policy}, version=2)
    names = [a_name(), a_name()]
    results = [bench.task("note").delay(name) for name in names]
    assert [r.verdict.degraded_from for r in results] == [
        None,
        {"task": "w.note", "queue": "normal", "reason": "count"},
    ]
    assert [r.get(timeout=20) for r in results] == [names[0], "cheap"]
    assert bench.count("cheap", names[1]) == 1
    assert bench.count("start", names[1]) == 0
    operation = bench.await_status(results[1].id, "succeeded")
    assert (operation.task, operation.queue) == ("w.cheap", "bulk")


def test_a_producer_is_told_that_its_job_was_dropped_and_waits_for_nothing(bench: Bench) -> None:
    busy(bench)
    policy = {"max_count": 1, "on_full": "drop_newest"}
    bench.store.publish_policy("normal", {**POLICIES["normal"], **policy}, version=2)
    kept, dropped = (bench.task("note").delay(a_name()) for _ in range(2))
    assert (kept.verdict.status, dropped.verdict.status, dropped.verdict.reason) == (
        "pending",
        "shed",
        "count",
    )
    assert dropped.status == "REVOKED"
    with pytest.raises(TaskRevokedError, match="normal was full"):
        dropped.get(timeout=20)
    assert bench.operation(dropped.id).status == "shed"
    kept.get(timeout=20)


def test_spilled_jobs_run_in_order_once_there_is_room(bench: Bench) -> None:
    busy(bench)
    policy = {"max_count": 2, "on_full": "spill", "spill_max_count": 10}
    bench.store.publish_policy("normal", {**POLICIES["normal"], **policy}, version=2)
    results = [bench.task("note").delay(a_name()) for _ in range(8)]
    assert [r.verdict.phase for r in results] == ["waiting"] * 2 + ["spilled"] * 6
    names = [r.get(timeout=30) for r in results]
    started = [row[1] for row in bench.lines() if row[0] == "start" and row[1] in names]
    assert started == names


def test_a_deadline_is_refused_at_the_door_or_checked_before_the_effect(bench: Bench) -> None:
    bench.store.publish_model("normal", {"seconds_to_drain": 30.0})
    with pytest.raises(AdmissionRefused, match=r"would wait 30\.0 s \(modeled\) and has [45]\.\d s") as told:
        bench.task("note").apply_async((a_name(),), expires=5)
    assert told.value.reason == "deadline"
    bench.store.publish_model("normal", {"seconds_to_drain": None})
    late, in_time = a_name(), a_name()
    first = bench.task("careful").apply_async((late, 1.2), expires=0.9)
    bench.await_status(first.id, "expired")
    second = bench.task("careful").apply_async((in_time, 0.0), expires=30)
    bench.await_status(second.id, "succeeded")
    assert (bench.count("start", late), bench.count("effect", late)) == (1, 0)
    assert bench.count("effect", in_time) == 1
    totals = bench.store.snapshot()["queues"]["normal"]["totals"]
    assert totals["goodput"] == totals["succeeded"]


def test_a_job_cancelled_in_a_workers_reserve_never_runs(bench: Bench) -> None:
    first = bench.task("note").delay(a_name(), 1.5)
    bench.await_status(first.id, "running")
    name = a_name()
    reserved = bench.task("note").delay(name)
    bench.await_status(reserved.id, "pending")
    while bench.operation(reserved.id).phase != "reserved":
        pass
    assert bench.store.cancel(reserved.id, by="t").status == "pending"
    assert bench.await_status(reserved.id, "cancelled").attempts <= 1
    assert bench.count("start", name) == 0


def test_a_job_that_its_task_always_puts_back_ends_in_quarantine(bench: Bench) -> None:
    name = a_name()
    result = bench.task("put_back").delay(name)
    operation = bench.await_status(result.id, "failed")
    assert (operation.quarantine_reason, bench.count("start", name)) == ("rejected", 3)

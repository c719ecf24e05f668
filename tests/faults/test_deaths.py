"""What is lost, and what runs twice, when a process dies, hangs or outlives its time?"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from celery.result import AsyncResult

from tests.engine.bench import POLICIES, Bench
from tests.support.processes import children_of, is_alive, unread_by
from tests.support.waiting import wait_until
from workers.exceptions import StoreUnavailable

pytestmark = pytest.mark.slow

#: What a dead worker held runs again within this time, with the default lease of 10 s.
BACK_WITHIN_S = 15.0
DEFAULT_LEASE: dict[str, dict[str, Any]] = {
    queue: {name: value for name, value in fields.items() if name != "lease_s"}
    for queue, fields in POLICIES.items()
}


def a_name() -> str:
    return f"n{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def shared_bench() -> Iterator[Bench]:
    """One worker that survives what these tests do to its children."""
    bench = Bench()
    bench.start_worker("prefork")
    yield bench
    bench.close()


@pytest.fixture
def bench(shared_bench: Bench) -> Iterator[Bench]:
    yield from with_every_start_explained(shared_bench)


@pytest.fixture
def own_bench() -> Iterator[Bench]:
    """For tests that end workers or the server: what it has answered is on the disk (RedisServer.kill)."""
    bench = Bench(durability="always")
    yield from with_every_start_explained(bench)
    bench.close()


def with_every_start_explained(bench: Bench) -> Iterator[Bench]:
    """A second start of a job is counted as a redelivery or a retry; nothing is left over."""
    before, lines = bench.totals(), len(bench.lines())
    yield bench
    bench.await_rest(within_s=40)
    after = bench.totals()
    starts = [row[1] for row in bench.lines()[lines:] if row[0] == "start"]
    again = len(starts) - len(set(starts))
    explained = sum(after[name] - before[name] for name in ("redelivered", "retried"))
    assert again <= explained, f"{again} second starts, {explained} explained"


def worker_pid(bench: Bench, name: str) -> int:
    """The process in which a job started last."""
    return int([row for row in bench.lines(name) if row[0] == "start"][-1][2])


# The children of one worker.


def test_a_job_whose_process_was_killed_runs_again(bench: Bench) -> None:
    name, before = a_name(), bench.totals()
    began = time.monotonic()
    result = bench.task("die").delay(name, times=1)
    assert result.get(timeout=BACK_WITHIN_S) == name
    assert time.monotonic() - began < BACK_WITHIN_S
    operation = bench.await_status(result.id, "succeeded")
    assert (bench.count("start", name), operation.lost_count, operation.deliveries) == (2, 1, 2)
    assert bench.totals()["redelivered"] - before["redelivered"] == 1


def test_a_job_that_kills_every_process_is_quarantined_and_twenty_others_finish(bench: Bench) -> None:
    name = a_name()
    killer = bench.task("die").delay(name)
    behind = [bench.task("note").delay(f"{name}-{n}") for n in range(20)]
    operation = bench.await_status(killer.id, "failed", within_s=60)
    assert (operation.quarantine_reason, operation.deliveries, bench.count("start", name)) == (
        "worker_lost",
        3,
        3,
    )
    for result in behind:
        bench.await_status(result.id, "succeeded")
    with pytest.raises(Exception, match=r"(?i)signal|lost|exited"):
        killer.get(timeout=10)
    record = next(row for row in bench.store.read_quarantine_spool(100) if row.id == killer.id)
    assert record.error_type == "WorkerLost"
    # What started is counted by process, so the innocent neighbour of a killed job is never blamed.
    assert all(bench.operation(result.id).lost_count <= 3 for result in behind)


def test_a_job_past_its_hard_time_limit_ends_at_once_and_for_good(bench: Bench) -> None:
    name = a_name()
    result = bench.task("limited").delay(name, 60)
    wait_until(lambda: bench.count("start", name), what="the job to start")
    pid, began = worker_pid(bench, name), time.monotonic()
    operation = bench.await_status(result.id, "failed", within_s=15)
    assert time.monotonic() - began < 15  # of the 60 that it wants
    assert operation.quarantine_reason == "time_limit"
    wait_until(lambda: not is_alive(pid), within_s=15, what="its process to be gone")
    assert bench.count("start", name) == 1
    assert bench.totals()["in_flight"] == 0


def test_a_soft_time_limit_is_a_failure_like_any_other(bench: Bench) -> None:
    result = bench.task("softly_limited").delay(a_name(), 60)
    operation = bench.await_status(result.id, "failed", within_s=15)
    assert operation.error is not None
    assert operation.error["type"] == "SoftTimeLimitExceeded"


def test_revoking_with_terminate_ends_a_running_job_as_cancelled(bench: Bench) -> None:
    name = a_name()
    result = bench.task("note").delay(name, 60)
    wait_until(lambda: bench.count("start", name), what="the job to start")
    bench.app.control.revoke(result.id, terminate=True)
    bench.await_status(result.id, "cancelled", within_s=15)
    assert bench.count("end", name) == 0


# Whole workers.


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
@pytest.mark.parametrize("whole_group", [True, False])
def test_what_a_killed_worker_held_comes_back_in_time(own_bench: Bench, pool: str, whole_group: bool) -> None:
    if pool != "prefork" and not whole_group:
        pytest.skip("there is one process only")
    own_bench.set_policies(DEFAULT_LEASE)
    workers = {worker.name: worker for worker in own_bench.start_workers(pool, pool, slots=1)}
    name = a_name()
    result = own_bench.task("note").delay(name, 2.5)
    wait_until(lambda: own_bench.count("start", name), what="the job to start")
    own_bench.await_status(result.id, "running")
    holder = workers[own_bench.operation(result.id).worker.partition("@")[0]]
    killed_at = time.time() * 1000
    if whole_group:
        holder.send(signal.SIGKILL)
    else:
        os.kill(holder.process.pid, signal.SIGKILL)
    wait_until(lambda: own_bench.count("start", name) == 2, within_s=40, what="the job to start again")
    again_at = int([row for row in own_bench.lines(name) if row[0] == "start"][1][3])
    assert again_at - killed_at <= BACK_WITHIN_S * 1000
    operation = own_bench.await_status(result.id, "succeeded")
    assert (operation.lost_count, operation.attempts) == (1, 2)
    totals = own_bench.totals()
    assert (totals["accepted"], totals["redelivered"], totals["succeeded"]) == (1, 1, 1)


def test_a_worker_frozen_past_its_lease_cannot_end_what_another_did(own_bench: Bench) -> None:
    frozen = own_bench.start_worker("threads")
    name = a_name()
    result = own_bench.task("note").delay(name, 1.5)
    own_bench.await_status(result.id, "running")
    frozen.send(signal.SIGSTOP)
    own_bench.start_worker("threads")
    operation = own_bench.await_status(result.id, "succeeded", within_s=30)
    assert (own_bench.count("start", name), operation.worker) == (2, "w1@here")
    epoch = operation.epoch
    frozen.send(signal.SIGCONT)
    wait_until(lambda: own_bench.count("end", name) == 2, what="the frozen worker to end its run")
    wait_until(
        lambda: own_bench.store.snapshot()["queues"]["normal"]["stale_settles"] == 1,
        what="its end to be refused",
    )
    after = own_bench.operation(result.id)
    assert (after.status, after.epoch, after.worker) == ("succeeded", epoch, "w1@here")
    totals = own_bench.totals()
    assert (totals["succeeded"], totals["redelivered"]) == (1, 1)
    # The frozen worker goes on working.
    assert own_bench.task("note").delay(a_name()).get(timeout=20)


def test_a_worker_that_is_asked_to_stop_ends_its_job_and_gives_back_the_rest(own_bench: Bench) -> None:
    worker = own_bench.start_worker("prefork", slots=1)
    name = a_name()
    results = [own_bench.task("note").delay(f"{name}-{n}", 1.5 if n == 0 else 0) for n in range(5)]
    own_bench.await_status(results[0].id, "running")
    worker.stop()
    assert own_bench.operation(results[0].id).status == "succeeded"
    assert own_bench.store.recount()["normal"]["in_flight"] == 0
    assert own_bench.store.snapshot()["workers"] == []
    own_bench.start_worker("solo")
    for result in results[1:]:
        operation = own_bench.await_status(result.id, "succeeded")
        assert (operation.deliveries, operation.lost_count) == (1, 0)


def test_a_long_job_keeps_its_lease_in_every_pool(own_bench: Bench) -> None:
    own_bench.set_policies({queue: {**fields, "lease_s": 3} for queue, fields in POLICIES.items()})
    results: list[tuple[str, AsyncResult[Any]]] = []
    own_bench.start_workers("solo", "threads", "prefork", slots=1)
    for _ in range(3):
        name = a_name()
        results.append((name, own_bench.task("note").delay(name, 6)))
    for name, result in results:
        own_bench.await_status(result.id, "succeeded", within_s=40)
        assert own_bench.count("start", name) == 1
    pids = {row[2] for row in own_bench.lines() if row[0] == "start"}
    assert len(pids) == 3, "".join(worker.text[-1500:] for worker in own_bench.workers)


# The server.


def test_a_running_job_is_kept_while_redis_is_killed_and_comes_back(own_bench: Bench) -> None:
    own_bench.set_policies(DEFAULT_LEASE)
    own_bench.start_worker("prefork")
    name = a_name()
    long = own_bench.task("note").delay(name, 5)
    own_bench.await_status(long.id, "running")
    accepted = [own_bench.task("note").delay(f"{name}-{n}", 0.05).id for n in range(60)]
    wait_until(lambda: own_bench.totals()["succeeded"] >= 5, what="some to be done")
    own_bench.server.kill()
    own_bench.server.start()
    for op_id in accepted:
        own_bench.await_status(op_id, "succeeded", within_s=60)
    assert own_bench.await_status(long.id, "succeeded").lost_count == 0
    assert own_bench.count("start", name) == 1
    assert own_bench.workers[0].process.poll() is None


def test_a_job_that_lies_before_a_child_while_redis_is_killed_counts_as_begun(own_bench: Bench) -> None:
    """With its connection a worker forgets what its pool has not begun; the child begins it all the same."""
    own_bench.set_policies(DEFAULT_LEASE)
    worker = own_bench.start_worker("prefork", slots=1)
    children = children_of(worker.process.pid)
    name = a_name()
    for child in children:
        os.kill(child, signal.SIGSTOP)
    try:
        assert not any(map(unread_by, children))
        result = own_bench.task("note").delay(name)
        wait_until(lambda: any(map(unread_by, children)), what="the job to be written to a child")
        own_bench.server.kill()
        wait_until(lambda: "Restoring 1 unack" in worker.text, what="the worker to notice")
    finally:
        for child in children:
            os.kill(child, signal.SIGCONT)
    own_bench.server.start()
    operation = own_bench.await_status(result.id, "succeeded")
    assert (operation.lost_count, operation.deliveries) == (1, 2)
    # A child that comes to it late asks first whether it is still the one to do it.
    assert own_bench.count("start", name) in (1, 2)


def test_the_count_of_deliveries_holds_over_lost_connections(own_bench: Bench) -> None:
    """Before its second and its third start the server is killed and comes back; the fourth never comes."""
    own_bench.start_worker("prefork")
    name = a_name()
    killer = own_bench.task("die").delay(name)
    behind = own_bench.task("note").delay(f"{name}-behind")
    for start in (1, 2):
        wait_until(lambda start=start: own_bench.count("start", name) >= start, within_s=60, what="a start")
        own_bench.server.kill()
        time.sleep(1)
        own_bench.server.start()
    operation = own_bench.await_status(killer.id, "failed", within_s=60)
    assert (operation.quarantine_reason, operation.deliveries, own_bench.count("start", name)) == (
        "worker_lost",
        3,
        3,
    )
    own_bench.await_status(behind.id, "succeeded")
    assert own_bench.workers[0].process.poll() is None


def test_what_ends_while_redis_is_away_is_recorded_when_it_is_back(own_bench: Bench) -> None:
    own_bench.set_policies(DEFAULT_LEASE)
    own_bench.start_worker("prefork")
    name = a_name()
    result = own_bench.task("note").delay(name, 2)
    own_bench.await_status(result.id, "running")
    own_bench.server.kill()
    wait_until(lambda: own_bench.count("end", name) == 1, what="the job to end")
    own_bench.server.start()
    own_bench.await_status(result.id, "succeeded", within_s=30)
    assert own_bench.count("start", name) == 1


def test_a_full_redis_refuses_new_work_and_drains_what_it_has(own_bench: Bench) -> None:
    name = a_name()
    waiting = [own_bench.task("note").delay(f"{name}-{n}").id for n in range(30)]
    client = own_bench.store.client
    used = client.info("memory")["used_memory"]
    client.config_set("maxmemory", used - 1)
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as caught:
            own_bench.task("note").apply_async((a_name(),), retry=False)
        assert caught.value.reason == "full"
        assert time.monotonic() - began < 2
        own_bench.start_worker("threads")
        client.config_set("maxmemory", client.info("memory")["used_memory"] - 1)
        for op_id in waiting:
            own_bench.await_status(op_id, "succeeded", within_s=60)
    finally:
        client.config_set("maxmemory", 256 << 20)
    assert own_bench.task("note").delay(a_name()).get(timeout=20)

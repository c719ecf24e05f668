"""Is each job in one pair of hands, for as long as they hold it and no longer?"""

from __future__ import annotations

import os
import signal
import time
import uuid

import pytest

from tests.support.processes import children_of, is_alive
from tests.support.waiting import wait_until

from .house import House, Worker, watch


def a_name() -> str:
    return f"w{uuid.uuid4().hex[:8]}.txt"


def test_a_job_of_many_leases_starts_once(house: House, pools: dict[str, str]) -> None:
    """A lease of a second under jobs of five: it is renewed while its holder lives, in each pool."""
    names = {pool: a_name() for pool in pools}
    ids = [house.submit("drill.append", names[pool], "x", 5, queue=pools[pool]) for pool in pools]
    for pool, op_id in zip(pools, ids, strict=True):
        job = house.await_status(op_id, "succeeded", within_s=30)
        assert (job["attempts"], job["deliveries"], job["lost_count"]) == (1, 1, 0), pool
        assert house.witness(names[pool]) == ["x"], pool


def test_a_countdown_of_many_leases_runs_once_when_due_and_is_shown_meanwhile(
    house: House, pools: dict[str, str]
) -> None:
    """Two workers serve the queue, and its lease is a fifth of the countdown."""
    queue, name = "urgent", a_name()
    sent_ms = time.time() * 1000
    op_id = house.submit("drill.append", name, "x", queue=queue, countdown_s=5)
    job = house.job(op_id)
    assert (job["status"], job["phase"]) == ("pending", "delayed")
    assert abs(job["due_at_ms"] - sent_ms - 5_000) < 1_000
    wait_until(lambda: house.row(queue)["delayed"] == 1, within_s=3, what="it to be shown")
    row = house.row(queue)
    assert (row["in_flight"], row["depth"], row["oldest_age_ms"]) == (0, 0, 0)
    due_ms = job["due_at_ms"]
    while time.time() * 1000 < due_ms - 500:
        now = house.job(op_id)
        assert (now["phase"], now["worker"], now["deliveries"]) == ("delayed", None, 0)
        time.sleep(0.25)
    assert not house.witness(name)
    job = house.await_status(op_id, "succeeded", within_s=20)
    assert -50 <= job["times"]["started_at_ms"] - due_ms <= 2_000
    assert (job["attempts"], house.witness(name)) == (1, ["x"])


def test_the_job_of_a_killed_group_is_counted_meanwhile_and_comes_back_once(house: House) -> None:
    queue, name = house.make_queue(lease_s=2), a_name()
    first = house.start_worker(queue, pool="prefork")
    op_id = house.submit("drill.append", name, "x", 4, queue=queue)
    house.await_status(op_id, "running")
    wait_until(lambda: house.row(queue)["in_flight"] == 1, what="it to be shown in flight")
    first.send(signal.SIGKILL)

    def look() -> tuple[str, str | None, int]:
        job = house.job(op_id)
        return job["status"], job["phase"], job["lost_count"]

    # Running until its lease of two seconds has run out (nobody can know before), then counted as lost.
    lost = ("pending", "waiting", 1)
    assert watch(look, lambda now: now == lost, within_s=2 + 2) == [("running", None, 0), lost]
    wait_until(lambda: house.row(queue)["depth"] == 1, within_s=3, what="its backlog")
    since_s = time.time() - house.job(op_id)["times"]["accepted_at_ms"] / 1000
    age_s = house.row(queue)["oldest_age_ms"] / 1000
    assert since_s - 2.5 <= age_s <= since_s + 1.5, "its age goes on from when it was eligible first"
    second = house.start_worker(queue, pool="prefork")
    seen = watch(look, lambda now: now[0] == "succeeded", within_s=30)
    assert seen[-2:] == [("running", None, 1), ("succeeded", None, 1)]
    job = house.job(op_id)
    assert (job["attempts"], job["deliveries"], job["worker"]) == (2, 2, f"{second.name}@here")
    assert house.witness(name) == ["x", "x"]
    totals = house.store.snapshot()["queues"][queue]["totals"]
    assert (totals["accepted"], totals["redelivered"], totals["lost"], totals["succeeded"]) == (1, 1, 0, 1)


@pytest.mark.parametrize("task", ["field.outlive", "field.ignore_signals"])
def test_a_job_past_its_hard_limit_is_ended_once_and_its_process_with_it(house: House, task: str) -> None:
    """The limit is a second; prefork is the pool that can keep one."""
    op_id = house.submit(task, 60, queue="normal")
    house.await_status(op_id, "running")
    began, children = time.monotonic(), children_of(house.stack.child_pid("workers"))
    job = house.await_status(op_id, "failed", within_s=15)
    assert time.monotonic() - began < 15  # of the 60 that it wants
    assert (job["attempts"], job["deliveries"], job["error"]["type"]) == (1, 1, "TimeLimitExceeded")
    wait_until(lambda: house.row("normal")["in_flight"] == 0, within_s=10, what="nothing to run")
    wait_until(
        lambda: sum(map(is_alive, children)) == len(children) - 1, within_s=30, what="its process to end"
    )
    assert house.await_status(house.submit("drill.echo", "after"), "succeeded")
    assert house.job(op_id)["status"] == "failed"


def test_keyed_jobs_pass_a_stopped_worker_whose_late_end_is_refused(
    house: House, pools: dict[str, str]
) -> None:
    """A runs, its worker stops for longer than the lease, A runs again elsewhere: A A B C, and one result."""
    queue, name, others = pools["threads"], a_name(), a_name()
    house.start_worker(queue, slots=1)
    before = house.store.snapshot()["queues"][queue]
    first = house.submit("drill.append", name, "A", 2, queue=queue, ordering_key="account")
    holder = house.await_status(first, "running")["worker"]
    rest = [
        house.submit("drill.append", name, text, queue=queue, ordering_key="account") for text in ("B", "C")
    ]
    holder_pid = house.worker(holder)["pid"]
    os.kill(holder_pid, signal.SIGSTOP)
    try:
        free = house.submit("drill.append", others, "other", queue=queue, ordering_key="another account")
        assert house.await_status(free, "succeeded", within_s=10)["attempts"] == 1
        job = house.await_status(first, "succeeded", within_s=20)
        for op_id in rest:
            house.await_status(op_id, "succeeded", within_s=20)
    finally:
        os.kill(holder_pid, signal.SIGCONT)

    def late_end_was_refused() -> bool:
        refused = house.store.snapshot()["queues"][queue]["stale_settles"] - before["stale_settles"]
        return bool(refused == 1)

    wait_until(late_end_was_refused, within_s=10, what="the late end to be refused")
    assert house.witness(name) == ["A", "A", "B", "C"]
    again = house.job(first)
    assert (again["status"], again["worker"], again["times"]) == ("succeeded", job["worker"], job["times"])
    assert job["worker"] != holder
    after = house.store.snapshot()["queues"][queue]
    counted = {n: after["totals"][n] - before["totals"][n] for n in ("accepted", "succeeded", "redelivered")}
    assert counted == {"accepted": 4, "succeeded": 4, "redelivered": 1}


def test_a_keyed_job_that_is_to_be_tried_again_keeps_its_place(house: House, pools: dict[str, str]) -> None:
    queue, name = pools["threads"], a_name()
    first = house.submit("field.fail_once", name, "A", queue=queue, ordering_key="k")
    rest = [house.submit("drill.append", name, text, queue=queue, ordering_key="k") for text in ("B", "C")]
    for op_id in (first, *rest):
        house.await_status(op_id, "succeeded", within_s=20)
    assert house.witness(name) == ["A", "A", "B", "C"]


def test_a_job_whose_child_died_after_its_result_was_stored_is_not_run_again(house: House) -> None:
    name = a_name()
    op_id = house.submit("field.die_after", name, queue="normal")
    job = house.await_status(op_id, "succeeded", "failed", within_s=20)
    assert (job["status"], job["result"], house.witness(name)) == ("succeeded", "done", ["x"])


def test_a_job_that_brings_its_whole_worker_down_is_not_tried_for_ever(house: House) -> None:
    """Even where the worker ends in good order and gives back what it held."""
    queue = house.make_queue(lease_s=1, max_deliveries=2)
    op_id = house.submit("field.break_worker", queue=queue)
    for _ in range(2):
        worker = Worker(house, queue=queue, pool="solo", slots=1)
        house.workers.append(worker)
        worker.process.wait(60)
    job = house.await_status(op_id, "failed", within_s=10)
    assert (job["deliveries"], job["error"]["type"]) == (2, "WorkerLost")


def test_a_child_that_is_killed_by_name_is_one_loss(house: House) -> None:
    name = a_name()
    op_id = house.submit("drill.append", name, "x", 2, queue="normal")
    house.await_status(op_id, "running")
    children = children_of(house.stack.child_pid("workers"))
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    job = house.await_status(op_id, "succeeded", within_s=20)
    assert (job["lost_count"], house.witness(name)) == (1, ["x", "x"])

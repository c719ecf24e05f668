"""Does Celery's own way of working hold through the gate, in each pool?"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

import msgpack
import pytest
from celery import chain, chord, group

from tests.support.waiting import wait_until
from workers.admission.inlet import drain_inlet
from workers.exceptions import AdmissionRefused
from workers.store import Offer

from . import audit
from .bench import POLICIES, QUEUES, Bench

POOLS = ("prefork", "threads", "solo")


@pytest.fixture(scope="module", params=POOLS)
def pool(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shared_bench(pool: str) -> Iterator[Bench]:
    """One worker for all tests of a pool."""
    bench = Bench()
    bench.start_worker(pool)
    yield bench
    bench.close()


@pytest.fixture
def bench(shared_bench: Bench) -> Iterator[Bench]:
    """The pool's bench; a test leaves nothing behind, no start uncounted, and the worker alive."""
    before, starts = shared_bench.totals(), len([r for r in shared_bench.lines() if r[0] == "start"])
    yield shared_bench
    shared_bench.set_policies(POLICIES)
    shared_bench.await_rest()
    after = shared_bench.totals()
    started = len([r for r in shared_bench.lines() if r[0] == "start"]) - starts
    assert started == after["started"] - before["started"]
    assert shared_bench.workers[0].process.poll() is None
    shared_bench.store.forget_spooled([row.id for row in shared_bench.store.read_quarantine_spool(1000)])


def a_name() -> str:
    return f"n{uuid.uuid4().hex[:8]}"


def test_a_job_runs_and_its_result_comes_back(bench: Bench) -> None:
    name = a_name()
    result = bench.task("note").delay(name, value={"x": 1})
    assert result.get(timeout=20) == {"x": 1}
    operation = bench.await_status(result.id, "succeeded")
    assert operation.attempts == operation.deliveries == 1
    assert operation.times["started_at_ms"] is not None
    assert bench.count("start", name) == bench.count("end", name) == 1


def test_a_running_job_is_shown_as_running_with_its_worker(bench: Bench) -> None:
    result = bench.task("note").delay(a_name(), 2.5)
    operation = bench.await_status(result.id, "running")
    assert operation.worker == "w0@here"
    worker = next(row for row in bench.store.snapshot()["workers"] if row["name"] == "w0@here")
    assert [held["id"] for held in worker["held"]] == [result.id]
    assert set(worker["queues"]) == set(QUEUES)
    assert bench.store.recount()["normal"]["in_flight"] == 1
    bench.await_status(result.id, "succeeded")


def test_a_failed_job_is_quarantined_with_its_traceback(bench: Bench) -> None:
    result = bench.task("fail").delay(a_name(), "no <b>way</b>")
    with pytest.raises(ValueError, match="no <b>way</b>"):
        result.get(timeout=20)
    operation = bench.await_status(result.id, "failed")
    assert operation.quarantined
    record = next(row for row in bench.store.read_quarantine_spool(100) if row.id == result.id)
    assert (record.reason, record.error_type, record.message) == ("failed", "ValueError", "no <b>way</b>")
    assert "raise ValueError(message)" in record.traceback
    assert record.attempts == 1


def test_an_exception_that_cannot_be_told_is_told(bench: Bench) -> None:
    result = bench.task("fail_without_words").delay(a_name())
    operation = bench.await_status(result.id, "failed")
    assert operation.error is not None
    assert operation.error["type"]


def test_autoretry_goes_on_as_one_operation(bench: Bench) -> None:
    name, before = a_name(), bench.totals()
    result = bench.task("fail_twice").delay(name)
    assert result.get(timeout=20) == name
    operation = bench.await_status(result.id, "succeeded")
    assert operation.attempts == 3
    after = bench.totals()
    assert bench.count("start", name) == 3
    assert (after["accepted"] - before["accepted"], after["retried"] - before["retried"]) == (1, 2)


def test_a_retry_waits_out_its_countdown_as_delayed(bench: Bench) -> None:
    name = a_name()
    result = bench.task("retry").delay(name, countdown=2)
    wait_until(lambda: bench.operation(result.id).phase == "delayed", what="the retry to be delayed")
    assert bench.store.snapshot()["queues"]["normal"]["oldest_eligible_at_ms"] is None
    assert result.get(timeout=20) == 1
    first, second = (int(row[3]) for row in bench.lines(name) if row[0] == "start")
    assert 1_900 <= second - first <= 5_000


def test_retries_come_to_an_end(bench: Bench) -> None:
    name = a_name()
    result = bench.task("retry_too_often").delay(name)
    with pytest.raises(ValueError, match="still no"):
        result.get(timeout=20)
    operation = bench.await_status(result.id, "failed")
    assert bench.count("start", name) == operation.attempts == 3


def test_a_chain_runs_in_order_even_into_a_full_queue(bench: Bench) -> None:
    name = a_name()
    tasks = bench.app.tasks
    bench.store.publish_policy("bulk", {"max_count": 1, "lease_s": 4}, version=2)
    links = [tasks["w.note"].si(f"{name}-{n}", 0.2, n).set(queue="bulk") for n in range(3)]
    result = chain(*links, app=bench.app).apply_async()
    assert result.get(timeout=20) == 2
    order = [row[1] for row in bench.lines() if row[0] == "start" and row[1].startswith(name)]
    assert order == [f"{name}-{n}" for n in range(3)]


def test_a_group_and_a_chord_run_each_part_once(bench: Bench) -> None:
    name, tasks, before = a_name(), bench.app.tasks, bench.totals()
    parts = [tasks["w.note"].si(f"{name}-g{n}", value=n) for n in range(5)]
    assert sorted(group(parts, app=bench.app).apply_async().get(timeout=20)) == list(range(5))
    parts = [tasks["w.note"].si(f"{name}-c{n}", value=n) for n in range(5)]
    result = chord(parts, tasks["w.take_all"].s(f"{name}-all"), app=bench.app).apply_async()
    assert sorted(result.get(timeout=20)) == list(range(5))
    bench.await_rest()
    starts = [row[1] for row in bench.lines() if row[0] == "start" and row[1].startswith(name)]
    assert len(starts) == len(set(starts)) == 11
    assert bench.totals()["accepted"] - before["accepted"] == 11


def test_a_refused_group_or_chord_leaves_nothing(bench: Bench) -> None:
    name, tasks = a_name(), bench.app.tasks
    bench.store.publish_policy("bulk", {"max_count": 3, "lease_s": 4}, version=2)
    parts = [tasks["w.note"].si(f"{name}-{n}").set(queue="bulk") for n in range(4)]
    before = bench.totals()
    with pytest.raises(AdmissionRefused):
        group(parts, app=bench.app).apply_async()
    with pytest.raises(AdmissionRefused):
        chord(parts, tasks["w.take_all"].s(name).set(queue="bulk"), app=bench.app).apply_async()
    after = bench.totals()
    assert after["accepted"] == before["accepted"]
    assert after["refused"] - before["refused"] == 8
    bench.await_rest()
    assert not [row for row in bench.lines() if row[1].startswith(name)]


def test_ignore_ends_a_job_and_reject_quarantines_it(bench: Bench) -> None:
    ignored, rejected = bench.task("ignore").delay(a_name()), bench.task("reject").delay(a_name())
    bench.await_status(ignored.id, "succeeded")
    operation = bench.await_status(rejected.id, "failed")
    assert operation.quarantine_reason == "rejected"


def test_reject_with_requeue_gives_it_another_go(bench: Bench) -> None:
    name, before = a_name(), bench.totals()
    result = bench.task("reject").delay(name, requeue=True)
    bench.await_status(result.id, "succeeded")
    assert bench.count("start", name) == 2
    assert bench.totals()["redelivered"] - before["redelivered"] == 1


def test_a_replaced_task_gives_the_result_of_what_replaced_it(bench: Bench) -> None:
    name = a_name()
    assert bench.task("replace").delay(name).get(timeout=20) == 7
    many = bench.task("replace").delay(f"{name}-m", many=True)
    assert sorted(many.get(timeout=20)) == [0, 1, 2]
    bench.await_rest()
    starts = [row[1] for row in bench.lines() if row[0] == "start" and row[1].startswith(name)]
    assert len(starts) == len(set(starts)) == 7


def test_a_countdown_is_waited_out_in_the_gate_and_not_in_a_worker(bench: Bench) -> None:
    name, sent = a_name(), time.time() * 1000
    result = bench.task("note").apply_async((name,), countdown=2)
    operation = bench.operation(result.id)
    assert (operation.status, operation.phase) == ("pending", "delayed")
    assert operation.due_at_ms is not None
    assert abs(operation.due_at_ms - sent - 2_000) < 500
    assert bench.totals()["in_flight"] == 0
    result.get(timeout=20)
    start = int(bench.lines(name)[0][3])
    assert -100 <= start - sent - 2_000 <= 2_500


def test_an_expired_job_never_runs(bench: Bench) -> None:
    name = a_name()
    behind = {"headers": {"sluicegate": {"ordering_key": name}}}
    bench.task("note").apply_async((a_name(), 1.5), **behind)
    result = bench.task("note").apply_async((name,), expires=0.7, **behind)
    bench.await_status(result.id, "expired")
    assert not bench.lines(name)


def test_what_was_cancelled_while_delayed_never_runs(bench: Bench) -> None:
    name = a_name()
    result = bench.task("note").apply_async((name,), countdown=1)
    assert bench.store.cancel(result.id, by="o").result == "cancelled"
    later = bench.task("note").apply_async((a_name(),), countdown=2)
    later.get(timeout=20)
    assert not bench.lines(name)


def test_later_links_of_a_chain_cancelled_while_it_runs_never_run(bench: Bench) -> None:
    name, tasks = a_name(), bench.app.tasks
    links = [tasks["w.note"].si(f"{name}-{n}", 1.5 if n == 0 else 0) for n in range(3)]
    result = chain(*links, app=bench.app).apply_async()
    first = result.parent.parent
    bench.await_status(first.id, "running")
    assert bench.store.cancel(first.id, by="o").result == "requested"
    bench.await_status(first.id, "succeeded", "cancelled")
    bench.await_rest()
    assert [row[1] for row in bench.lines() if row[1].startswith(name) and row[0] == "start"] == [f"{name}-0"]


def test_a_new_offer_from_inside_a_job_is_refused_like_any_other(bench: Bench) -> None:
    name = a_name()
    bench.store.publish_policy("normal", {"max_count": 2, "lease_s": 4}, version=2)
    told = bench.task("spawn").delay(name, 6).get(timeout=20)
    assert "AdmissionRefused" in told
    assert told.count("accepted") == 2


def test_an_unknown_task_waits_for_its_worker_then_is_quarantined(bench: Bench) -> None:
    result = bench.app.send_task("no.such.task", (1,))
    wait_until(
        lambda: bench.operation(result.id).phase == "delayed", what="the job to wait for another worker"
    )
    bench.task("note").delay(a_name()).get(timeout=20)
    raw = audit.records(bench.store)[result.id]
    assert bench.operation(result.id).error is not None
    raw["uk"] -= 60_000
    bench.store.client.hset(bench.store.root + "ops", result.id, msgpack.packb(raw))
    operation = bench.await_status(result.id, "failed")
    assert operation.quarantine_reason == "unknown_task"
    assert operation.attempts == 0


def test_stored_bytes_that_cannot_be_read_are_quarantined_as_they_are(bench: Bench) -> None:
    bodies = [
        b"not-json",
        b"\x80\x04K*.",
        b"{}",
        b"[]",
        b'{"b": 5, "h": 5, "p": 5}',
        b'{"b": "%%%", "h": {}, "p": {}}',
    ]
    offers = [Offer(f"{a_name()}-bad", "w.note", "normal", body) for body in bodies]
    assert all(verdict.accepted for verdict in bench.store.admit(offers))
    behind = [bench.task("note").delay(a_name()) for _ in range(10)]
    for result in behind:
        result.get(timeout=30)
    for offer in offers:
        operation = bench.await_status(offer.id, "failed")
        assert operation.quarantine_reason == "undecodable", offer.payload
    held = {row.id: row.payload for row in bench.store.read_quarantine_spool(100)}
    assert all(held[offer.id] == offer.payload for offer in offers)


def test_what_a_stock_producer_pushed_is_admitted_or_quarantined(bench: Bench) -> None:
    name, client = a_name(), bench.store.client
    good = stock_message("w.note", [name])
    bad = [
        b"not-json",
        b"\x80\x04K*.",
        json.dumps({**good, "body": "%%%"}).encode(),
        json.dumps({**good, "body": "NDI="}).encode(),
        json.dumps({**good, "headers": {}}).encode(),
        json.dumps({**good, "headers": {**good["headers"], "eta": "tomorrow"}}).encode(),
    ]
    for raw in bad:
        client.lpush("normal", raw)
    for n in range(10):
        client.lpush("normal", json.dumps(stock_message("w.note", [f"{name}-{n}"])))
    report = drain_inlet(bench.store, ["normal"])
    assert (report.admitted, report.held, report.left) == (10, 6, 0)
    wait_until(lambda: all(bench.count("end", f"{name}-{n}") == 1 for n in range(10)), what="the ten to end")
    held = [row for row in bench.store.read_quarantine_spool(100) if row.reason == "undecodable"]
    assert {row.payload for row in held} >= set(bad)
    assert client.llen("normal") == 0


def test_urgent_work_overtakes_what_waits(bench: Bench) -> None:
    name = a_name()
    slow = [bench.task("note").apply_async((f"{name}-slow{n}", 0.4), queue="bulk") for n in range(12)]
    now = bench.task("note").apply_async((f"{name}-now",), queue="critical")
    now.get(timeout=20)
    times = bench.operation(now.id).times
    starts = [int(row[3]) for row in bench.lines() if row[0] == "start" and row[1].startswith(f"{name}-slow")]
    between = sum((times["accepted_at_ms"] or 0) < at < (times["started_at_ms"] or 0) for at in starts)
    # What was claimed already cannot be overtaken: one for each slot.
    assert between <= 2
    for result in slow:
        result.get(timeout=20)


def test_a_worker_holds_no_more_than_it_can_run(bench: Bench, pool: str) -> None:
    results = [bench.task("note").delay(a_name(), 0.5) for _ in range(8)]
    slots, seen = 1 if pool == "solo" else 2, 0
    while bench.operation(results[-1].id).status != "succeeded":
        seen = max(seen, bench.totals()["in_flight"])
    assert seen == slots


def test_a_huge_result_does_not_fill_the_records(bench: Bench) -> None:
    result = bench.task("give_much").delay(a_name(), 3_000_000)
    operation = bench.await_status(result.id, "succeeded")
    assert operation.result_repr is not None
    assert len(operation.result_repr) <= 1_000


def test_revoking_by_celerys_own_control_cancels(bench: Bench) -> None:
    name = a_name()
    result = bench.task("note").apply_async((name,), countdown=2)
    bench.app.control.revoke(result.id)
    bench.await_status(result.id, "cancelled")
    assert not bench.lines(name)


def test_the_worker_answers_remote_control(bench: Bench) -> None:
    answers = bench.app.control.broadcast("ping", reply=True, timeout=10, limit=1)
    assert answers == [{"w0@here": {"ok": "pong"}}]


def stock_message(task: str, args: list[object]) -> dict[str, object]:
    """A message as kombu's plain Redis transport pushes it."""
    import base64

    op_id = str(uuid.uuid4())
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return {
        "body": base64.b64encode(json.dumps([args, {}, embed]).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": task, "id": op_id, "retries": 0, "eta": None, "expires": None},
        "properties": {
            "correlation_id": op_id,
            "reply_to": "",
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "normal"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": op_id,
        },
    }

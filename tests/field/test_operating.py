"""Do cancel, modes, counts and replays hold while workers, Redis and the web come and go?"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from celery import Celery, chain

from tests.support.waiting import wait_until
from workers import install

from .house import House


def a_name() -> str:
    return f"w{uuid.uuid4().hex[:8]}.txt"


def test_a_project_s_module_runs_in_the_room_as_it_is(house: House) -> None:
    job = house.submit("tests.field.shop.charge", 7)
    assert house.await_status(job, "succeeded")["result"] == "charged 7"


# Cancel.


def test_what_is_cancelled_never_runs_whoever_was_down(house: House) -> None:
    """With no worker up; a delayed one over a restart; twice; one that is done."""
    queue, name = house.make_queue(lease_s=1), a_name()
    waiting = house.submit("drill.append", name, "waiting", queue=queue)
    delayed = house.submit("drill.append", name, "delayed", queue=queue, countdown_s=2)
    first = {op_id: house.http.delete(f"/api/v1/jobs/{op_id}") for op_id in (waiting, delayed)}
    again = {op_id: house.http.delete(f"/api/v1/jobs/{op_id}") for op_id in (waiting, delayed)}
    for op_id in (waiting, delayed):
        assert (first[op_id].status_code, again[op_id].status_code) == (200, 200)
        assert first[op_id].json()["result"] == again[op_id].json()["result"] == "cancelled"
        assert first[op_id].json()["status"] == again[op_id].json()["status"]
    os.kill(house.stack.child_pid("monitor"), signal.SIGKILL)
    os.kill(house.stack.child_pid("redis"), signal.SIGKILL)
    wait_until(
        lambda: house.job(delayed)["status"] == "cancelled", within_s=30, what="the gate to answer again"
    )
    house.start_worker(queue)
    last = house.submit("drill.append", name, "last", queue=queue, countdown_s=2)
    done = house.await_status(last, "succeeded")
    assert house.witness(name) == ["last"]
    refused = house.http.delete(f"/api/v1/jobs/{last}")
    assert (refused.status_code, house.job(last)) == (409, done)


def test_links_two_and_three_of_a_chain_cancelled_in_its_first_never_run(
    house: House, pools: dict[str, str]
) -> None:
    queue, name = pools["threads"], a_name()
    broker = f"sluicegate+socket://{house.stack.redis_url.removeprefix('unix://').split('?')[0]}"
    app = install(Celery("producer", broker=broker, backend="disabled://", set_as_current=False))
    parts = [
        app.signature("drill.append", (name, str(n), 1.5 if n == 1 else 0), immutable=True, queue=queue)
        for n in (1, 2, 3)
    ]
    result = chain(*parts, app=app).apply_async()
    head = result.parent.parent.id
    house.await_status(head, "running")
    assert house.http.delete(f"/api/v1/jobs/{head}").status_code == 202
    house.await_status(head, "succeeded", "cancelled")
    time.sleep(1)
    assert house.witness(name) == ["1"]
    for op_id in (result.parent.id, result.id):
        answer = house.http.get(f"/api/v1/jobs/{op_id}")
        assert answer.status_code == 404 or answer.json()["status"] == "cancelled"


# Counts.


def test_page_api_metrics_and_admission_count_the_same(house: House) -> None:
    """Ten in a class, five of them delayed by an hour, one worker that holds a long one."""
    queue = house.make_queue(lease_s=1, max_count=9)
    house.start_worker(queue, pool="solo", slots=1)
    held = house.submit("drill.sleep", 3, queue=queue)
    house.await_status(held, "running")
    house.submit_many(
        [{"task": "drill.sleep", "args": [0], "queue": queue, "countdown_s": 3600}] * 5
        + [{"task": "drill.sleep", "args": [0], "queue": queue}] * 4
    )
    wanted = {"depth": 4, "delayed": 5, "in_flight": 1}
    wait_until(
        lambda: {name: house.row(queue)[name] for name in wanted} == wanted, within_s=5, what="the frame"
    )
    exposed = httpx.get(f"{house.stack.base_url}/metrics", trust_env=False, timeout=10).text
    for name, value in wanted.items():
        assert re.search(
            rf'^sluicegate_\w*{name}\w*{{[^}}]*queue="{queue}"[^}}]*}} {value}(\.0)?$', exposed, re.M
        ), name
    row = house.row(queue)
    assert row["totals"]["accepted"] == 10 == sum(row[name] for name in wanted)
    # Admission's own count: the bound of nine is reached by what waits and is delayed.
    refused = house.post("drill.sleep", 0, queue=queue)
    assert (refused.status_code, refused.json()["reason"]) == (429, "count")
    house.await_status(held, "succeeded")
    wait_until(lambda: house.store.snapshot()["queues"][queue]["depth"] == 0, what="what waited to be done")
    # What is delayed is no age, no backlog to forecast and no reason to refuse.
    wait_until(
        lambda: house.row(queue)["in_flight"] == house.row(queue)["depth"] == 0, within_s=5, what="the frame"
    )
    row = house.row(queue)
    assert (row["delayed"], row["oldest_age_ms"], row["drain"]["state"], row["drain"]["seconds"]) == (
        5,
        0,
        "empty",
        0,
    )
    assert house.post("drill.sleep", 0, queue=queue).status_code == 202


@pytest.mark.soak
def test_a_retry_in_backoff_is_no_age_and_ages_from_its_due_time(house: House, pools: dict[str, str]) -> None:
    queue = house.make_queue(lease_s=1)
    worker = house.start_worker(queue, pool="threads")
    op_id = house.submit("field.try_again", 3, queue=queue)
    job = wait_until(lambda: (job := house.job(op_id))["phase"] == "delayed" and job, what="the backoff")
    wait_until(lambda: house.row(queue)["delayed"] == 1, within_s=3, what="it to be shown")
    assert house.row(queue)["oldest_age_ms"] == 0
    worker.kill()
    wait_until(lambda: house.row(queue)["depth"] == 1, within_s=10, what="it to be due")
    age_ms, since_ms = house.row(queue)["oldest_age_ms"], time.time() * 1000 - job["due_at_ms"]
    assert 0 <= age_ms <= since_ms + 500


def test_a_drained_queue_and_an_unused_one_are_explicit_zeros_and_a_dead_sampler_is_said(
    house: House,
) -> None:
    queue = house.make_queue()

    def exposed() -> str:
        return httpx.get(f"{house.stack.base_url}/metrics", trust_env=False, timeout=10).text

    wait_until(lambda: f'queue="{queue}"' in exposed(), within_s=10, what="a sample of the unused queue")
    assert re.search(rf'^sluicegate_\w*depth\w*{{[^}}]*queue="{queue}"[^}}]*}} 0(\.0)?$', exposed(), re.M)
    monitor = house.stack.child_pid("monitor")
    os.kill(monitor, signal.SIGSTOP)
    try:
        wait_until(
            lambda: f'queue="{queue}"' not in exposed(), within_s=15, what="the stale samples to be left out"
        )
        ages = []
        for _ in range(2):
            ages.append(house.frame()["sampled_ago_ms"])
            time.sleep(0.3)
        assert 2_000 < ages[0] < ages[1]
    finally:
        os.kill(monitor, signal.SIGCONT)
    wait_until(lambda: house.frame()["sampled_ago_ms"] < 2_000, within_s=15, what="frames again")


def test_a_web_that_is_killed_in_the_middle_of_a_job_changes_nothing_of_its_count(house: House) -> None:
    op_id = house.submit("drill.sleep", 4, queue="normal")
    house.await_status(op_id, "running")
    os.kill(house.stack.child_pid("web"), signal.SIGKILL)
    job = wait_until(lambda: house.job(op_id), within_s=30, what="the web to answer again")
    assert job["attempts"] == 1
    assert house.row("normal")["in_flight"] in (0, 1)
    assert house.await_status(op_id, "succeeded")["lost_count"] == 0
    wait_until(lambda: house.row("normal")["in_flight"] == 0, within_s=5, what="none to run")


@pytest.mark.soak
def test_a_frozen_worker_is_said_to_be_silent_and_a_killed_one_goes(house: House) -> None:
    queue = house.make_queue(lease_s=1)
    worker = house.start_worker(queue)
    worker.send(signal.SIGSTOP)
    wait_until(
        lambda: house.worker(f"{worker.name}@here")["state"] == "silent", within_s=30, what="its silence"
    )
    assert house.worker(f"{worker.name}@here")["beat_ago_ms"] > 1_000
    worker.send(signal.SIGCONT)
    wait_until(lambda: house.worker(f"{worker.name}@here")["state"] == "live", within_s=10, what="its return")


# Modes.


@pytest.mark.soak
def test_an_operators_draining_outlives_redis_workers_and_web_and_the_last_word_wins(house: House) -> None:
    queue, name = house.make_queue(lease_s=1), a_name()
    house.submit_many([{"task": "drill.append", "args": [name, "x"], "queue": queue}] * 20)
    done = house.http.put("/api/v1/mode", json={"mode": "draining", "queue": queue, "reason": "a release"})
    assert done.status_code == 200
    for child in ("redis", "workers", "web"):
        old = house.stack.child_pid(child)
        os.kill(old, signal.SIGKILL)
        wait_until(
            lambda child=child, old=old: house.stack.child_pid(child) != old,
            within_s=30,
            what=f"a new {child}",
        )

        def mode() -> dict[str, Any]:
            document: dict[str, Any] = (
                house.http.get("/api/v1/mode", params={"queue": queue}).raise_for_status().json()
            )
            return document

        assert wait_until(mode, within_s=30, what="an answer")["mode"] == "draining"
        refused = wait_until(
            lambda: (a := house.post("drill.echo", 1, queue=queue)).json().get("reason") == "mode" and a,
            within_s=30,
            what="a refusal by mode",
        )
        assert refused.status_code == 503 and int(refused.headers["Retry-After"]) >= 1
    house.start_worker(queue)
    wait_until(lambda: len(house.witness(name)) >= 20, within_s=30, what="the twenty to finish")
    assert len(house.witness(name)) == 20
    with ThreadPoolExecutor(2) as hands:
        wanted = ("saturated", "normal")
        list(
            hands.map(
                lambda mode: house.admin.put("/api/v1/mode", json={"mode": mode, "queue": queue}), wanted
            )
        )
    rows = house.admin.get("/api/v1/transitions", params={"scope": queue}).json()["transitions"]
    changes = [row["after"] for row in rows if row.get("scope") == queue]
    assert set(changes[:2]) == {"saturated", "normal"}
    assert mode()["mode"] == changes[0]
    journal = house.admin.get("/api/v1/journal").json()["entries"]
    assert sum(row["verb"] == "set_mode" and row["target"] == queue for row in journal) == 3
    house.http.put("/api/v1/mode", json={"mode": "normal", "queue": queue}).raise_for_status()


# Submits.


def test_fifty_submits_of_one_key_over_a_killed_web_are_one_job(house: House, pools: dict[str, str]) -> None:
    name, key = a_name(), uuid.uuid4().hex
    body = {"task": "drill.append", "args": [name, "x"], "queue": pools["threads"]}
    ids, lock = set(), threading.Lock()

    def submit(_: int) -> None:
        headers = {"Idempotency-Key": key, "Authorization": f"Bearer {house.stack.api_key}"}
        for _ in range(100):
            try:
                answer = httpx.post(
                    f"{house.stack.base_url}/api/v1/jobs",
                    json=body,
                    headers=headers,
                    trust_env=False,
                    timeout=5,
                )
                if answer.status_code == 202:
                    with lock:
                        ids.add(answer.json()["operation_id"])
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
        raise AssertionError("never answered")

    with ThreadPoolExecutor(50) as hands:
        running = [hands.submit(submit, number) for number in range(50)]
        os.kill(house.stack.child_pid("web"), signal.SIGKILL)
        for future in running:
            future.result(60)
    assert len(ids) == 1
    house.await_status(ids.pop(), "succeeded")
    other = house.post("drill.append", name, "y", queue=pools["threads"], headers={"Idempotency-Key": key})
    assert other.status_code == 409
    assert house.witness(name) == ["x"]


@pytest.mark.soak
def test_who_waits_as_long_as_told_is_let_in(house: House, pools: dict[str, str]) -> None:
    """A bound of two, two slots, jobs of 200 ms: the refused come back when they were told to."""
    queue = pools["threads"]
    house.put_policy(queue, max_count=2)
    try:
        job = {"task": "drill.sleep", "args": [0.2], "queue": queue}
        answers = [house.http.post("/api/v1/jobs", json=job) for _ in range(14)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) >= 8
        for answer in refused:
            assert re.fullmatch(r"[1-9]\d*", answer.headers["Retry-After"])
            assert re.fullmatch(r'"\w+";r=\d+;t=\d+', answer.headers["RateLimit"])
            assert re.fullmatch(r'"\w+";q=\d+;qu="[\w-]+"', answer.headers["RateLimit-Policy"])

        def come_back(answer: httpx.Response) -> int:
            time.sleep(int(answer.headers["Retry-After"]))
            return house.http.post("/api/v1/jobs", json=job).status_code

        with ThreadPoolExecutor(len(refused)) as hands:
            let_in = list(hands.map(come_back, refused)).count(202)
        assert let_in >= 0.9 * len(refused), f"{let_in} of {len(refused)}"
    finally:
        house.put_policy(queue, max_count=None)


# Replays.


@pytest.mark.soak
def test_a_replay_of_what_fails_again_ends_and_doubles_nothing(house: House) -> None:
    """Pressed twice and from two browsers; its replayer is killed half way."""
    queue = house.make_queue(lease_s=1)
    house.start_worker(queue, slots=4)
    ids = house.submit_many([{"task": "drill.fail", "args": ["again"], "queue": queue}] * 60)
    held = {"filter": {"queue": queue}, "rate_per_s": 20}
    house.await_ends(ids[-3:])

    def count() -> int:
        return int(house.admin.get("/api/v1/quarantine", params={"queue": queue, "limit": 1}).json()["count"])

    wait_until(lambda: count() == 60, within_s=20, what="sixty to be held")
    began = time.monotonic()
    with ThreadPoolExecutor(4) as hands:
        said = list(
            hands.map(lambda _: house.admin.post("/api/v1/quarantine/replay", json=held).json(), range(4))
        )
    batch = max(said, key=lambda row: row["total"])
    assert sum(row["total"] for row in said) == 60
    path = batch["status_url"]
    wait_until(lambda: house.admin.get(path).json()["done"] >= 20, within_s=20, what="a third to be replayed")
    os.kill(house.stack.child_pid("monitor"), signal.SIGKILL)
    wait_until(lambda: house.admin.get(path).json()["state"] == "done", within_s=60, what="the batch to end")
    took_s = time.monotonic() - began
    assert took_s > 60 / 20 * 0.8
    wait_until(lambda: count() == 60, within_s=20, what="sixty to be held again")
    totals = house.store.snapshot()["queues"][queue]["totals"]
    assert (totals["replayed"], totals["accepted"], totals["failed"]) == (60, 120, 120)
    newest = house.admin.get("/api/v1/quarantine", params={"queue": queue, "limit": 1}).json()["jobs"][0]
    assert newest["replay_of"] in ids

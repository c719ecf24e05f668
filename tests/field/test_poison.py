"""Does a job that nobody can take end as a readable failure, and its worker go on?"""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.engine.test_inlet import stock_message
from tests.support.waiting import wait_until

from .house import House
from .jobs import RAISES, RETURNS

#: What each kind of result is told as: its value, or a failure to encode it.
TOLD: dict[str, Any] = {
    "nan": None,
    "infinity": {"load": [None, None]},
    "2^53+1": 2**53 + 1,
    "a thousand digits": 10**1000,
    "half a character": "a?b",
    "nul": "a\x00b",
    "bytes": {"__type__": "base64", "__value__": "/wA="},
    "5 MB": None,
    "50 MB": None,
}


def test_what_cannot_be_carried_kept_or_told_ends_readable_and_the_worker_lives(
    house: House, pools: dict[str, str]
) -> None:
    for queue in pools.values():
        house.put_policy(queue, lease_s=10)  # 50 MB and deep nests keep a whole process busy for a while
    kinds = [("field.give", kind) for kind in RETURNS] + [("field.throw", kind) for kind in RAISES]
    again = [kind for kind in RAISES if kind not in ("exit", "interrupt", "a generator's exit")]
    kinds += [("field.retry_with", kind) for kind in again]
    wanted = [(queue, task, kind) for queue in pools.values() for task, kind in kinds]
    ids = house.submit_many([{"task": task, "args": [kind], "queue": queue} for queue, task, kind in wanted])
    after = house.submit_many(
        [{"task": "drill.echo", "args": [queue], "queue": queue} for queue in pools.values()]
    )
    for (queue, task, kind), op_id in zip(wanted, ids, strict=True):
        job, where = house.await_status(op_id, "succeeded", "failed", within_s=60), (queue, task, kind)
        assert job["deliveries"] == 1, (where, job)
        if task == "field.give" and kind in TOLD:
            assert (job["status"], job["result"]) == ("succeeded", TOLD[kind]), where
            assert ("result" in job["unknown"]) == (kind in ("nan", "infinity", "5 MB", "50 MB"))
            continue
        assert (job["status"], job["quarantined"]) == ("failed", True), (where, job)
        error = job["error"]
        assert error["type"] and "Unpickleable" not in error["type"], where
        assert len(error["message"]) <= 2_000 and len(error["traceback"]) <= 20_000
        if task == "field.give":
            assert error["type"] == "EncodeError"
        else:
            assert "jobs.py" in error["traceback"], (where, error)
        assert job["attempts"] == (2 if task == "field.retry_with" else 1)
    for queue, op_id in zip(pools.values(), after, strict=True):
        assert house.await_status(op_id, "succeeded")["result"] == queue
    for queue in pools.values():
        house.put_policy(queue, lease_s=1)
    shown = house.http.get("/api/v1/quarantine", params={"limit": 200})
    assert shown.status_code == 200
    assert len(shown.content) < 1_000_000
    assert "workers ended" not in house.stack.text


#: What may lie on a plain list under a queue's name, and why it cannot be taken.
UNREADABLE: dict[str, bytes] = {
    "a pickle": b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "not-json": b"not-json",
    "a body of %%%": json.dumps({**stock_message("drill.echo"), "body": "%%%"}).encode(),
    "a body of 42": json.dumps({**stock_message("drill.echo"), "body": "NDI="}).encode(),
    "empty headers": json.dumps({**stock_message("drill.echo"), "headers": {}}).encode(),
    "an eta of tomorrow": json.dumps(stock_message("drill.echo", eta="tomorrow")).encode(),
    "markup": b"<script>document.title='run'</script>{{7*7}}",
    "five megabytes": b"\xff" * 5_000_000,
}


def test_what_lies_unreadable_on_a_list_is_held_with_its_bytes_and_the_jobs_behind_finish(
    house: House, pools: dict[str, str]
) -> None:
    queue = pools["threads"]
    for raw in UNREADABLE.values():
        house.store.client.lpush(queue, raw)
    behind = [stock_message("drill.echo", [number]) for number in range(10)]
    for message in behind:
        house.store.client.lpush(queue, json.dumps(message))
    for number, message in enumerate(behind):
        job = wait_until(
            lambda op_id=message["headers"]["id"]: house.job(op_id), within_s=20, what="it to be in"
        )
        assert house.await_status(job["operation_id"], "succeeded")["result"] == number

    def held() -> list[dict[str, Any]]:
        answer = house.admin.get("/api/v1/quarantine", params={"queue": queue, "limit": 200})
        assert len(answer.content) < 1_000_000
        return [job for job in answer.json()["jobs"] if job["reason"] == "undecodable"]

    def raw_bytes(job: dict[str, Any]) -> str:
        path = f"/api/v1/quarantine/{job['operation_id']}"
        assert "script" not in house.admin.get(path).text, (
            "bytes are shown to who asks for them, with a reason"
        )
        answer = house.admin.post(f"/api/v1/jobs/{job['operation_id']}/reveal", json={"reason": "a test"})
        assert len(answer.content) < 1_000_000
        return str(answer.json()["payload"]["text"])

    wait_until(lambda: len(held()) == len(UNREADABLE), within_s=10, what="all of them to be held")
    texts = [raw_bytes(job) for job in held()]
    assert any(text.startswith("\\x80\x04") for text in texts)
    assert any("<script>document.title='run'</script>{{7*7}}" in text for text in texts)
    assert all(job["message"] for job in held())


#: Parts of a message that are not what they should be; the task is a known one.
ODD: list[dict[str, Any]] = [
    {"timelimit": "soon"},
    {"timelimit": [1, 2, 3]},
    {"timelimit": [{"a": 1}, "x"]},
    {"retries": "many"},
    {"retries": -5},
    {"retries": 1e300},
    {"expires": "never"},
    {"expires": {"a": 1}},
    {"group": 5},
    {"root_id": ["x"]},
    {"parent_id": {"a": 1}},
    {"origin": 7, "argsrepr": 7, "kwargsrepr": []},
    {"ignore_result": "perhaps"},
    {"shadow": ["x"]},
    {"stamped_headers": 5, "stamps": "x"},
    {"replaced_task_nesting": "deep"},
    {"lang": 5},
    {"compression": "zip-bomb"},
    {"id": "a/b c\nd"},
    {"body": [5, {}, {}]},
    {"body": [[], [1], {}]},
    {"body": [[1], {}, {"callbacks": "x", "errbacks": 5, "chain": {"a": 1}, "chord": [1]}]},
    {"body": [[1], {}, {"callbacks": [{"task": 5}], "chain": ["no signature"]}]},
    {"body": [[1], {"self": 1, "task_id": 2}, {}]},
    {"body": [[1], {}]},
    {"body": {"args": [1]}},
]


def test_no_odd_message_takes_a_worker_down(house: House, pools: dict[str, str]) -> None:
    messages = []
    for queue in pools.values():
        for change in ODD:
            body = change.get("body", [[1], {}, {}])
            headers = {name: value for name, value in change.items() if name != "body"}
            message = stock_message("drill.echo", **headers)
            message["body"] = base64.b64encode(json.dumps(body).encode()).decode()
            messages.append((queue, message))
    for queue, message in messages:
        house.store.client.lpush(queue, json.dumps(message))
    last = {queue: stock_message("drill.echo", [queue]) for queue in pools.values()}
    for queue, message in last.items():
        house.store.client.lpush(queue, json.dumps(message))
    for queue, message in last.items():
        op_id = message["headers"]["id"]
        wait_until(
            lambda op_id=op_id: house.job(op_id)["status"] == "succeeded",
            within_s=30,
            what=f"{queue} to go on",
        )

    def is_at_rest() -> bool:
        rows = [house.store.snapshot()["queues"][queue] for queue in pools.values()]
        return all(
            row["depth"] + row["in_flight"] + row["delayed"] + (row["inlet"] or 0) == 0 for row in rows
        )

    wait_until(is_at_rest, within_s=30, what="each of them to have ended")
    assert "workers ended" not in house.stack.text


def test_an_unknown_task_waits_for_a_newer_worker_as_long_as_its_policy_says(house: House) -> None:
    short, long = house.make_queue(unknown_task_grace_s=1), house.make_queue(unknown_task_grace_s=60)
    messages = {queue: stock_message("field.newer") for queue in (short, long)}
    ids = {queue: message["headers"]["id"] for queue, message in messages.items()}
    house.start_worker(f"{short},{long}")
    for queue, message in messages.items():
        house.store.client.lpush(queue, json.dumps(message))
    wait_until(lambda: house.job(ids[short])["status"] == "failed", within_s=15, what="the first to be held")
    job = house.job(ids[short])
    assert (job["quarantined"], job["attempts"], job["error"]["type"]) == (True, 0, "NotRegistered")
    shown = f"/api/v1/quarantine/{ids[short]}"
    held = wait_until(lambda: house.admin.get(shown).raise_for_status().json(), what="it to be recorded")
    assert (held["reason"], "field.newer" in held["message"]) == ("unknown_task", True)
    waiting = house.job(ids[long])
    assert (waiting["status"], waiting["attempts"]) == ("pending", 0)
    # The newer release comes up beside the older one.
    house.start_worker(long, imports="tests.field.jobs,tests.field.newer_jobs")
    assert house.await_status(ids[long], "succeeded", within_s=20)["result"] == "known by now"

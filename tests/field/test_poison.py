"""Does a job that nobody can take end as a readable failure, and its worker go on?"""

from __future__ import annotations

from typing import Any

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
            assert bool(job["unknown"]) == (kind in ("nan", "infinity", "5 MB", "50 MB"))
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

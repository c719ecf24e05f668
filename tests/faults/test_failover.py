"""Does a whole installation on a Redis that Sentinel watches go through the loss of the primary by itself?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.sentinel import Watched
from tests.support.stack import Stack
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

ANSWERED_WITHIN_S = 2.0


@pytest.fixture
def watched(short_dir: Path) -> Iterator[Watched]:
    found = Watched(short_dir / "failover")
    yield found
    found.stop()


def test_door_workers_results_and_frame_find_the_new_primary(
    watched: Watched, gate_up: Callable[..., Stack]
) -> None:
    stack = gate_up(name="failover", SLUICEGATE_REDIS_URL=watched.url)
    before = stack.submit("drill.echo", "before")
    wait_until(lambda: stack.job(before)["status"] == "succeeded", what="a job before the failover")
    assert stack.job(before)["result"] == "before"
    seq = stack.get("/api/v1/queues")["seq"]
    watched.fail_over()
    began = time.monotonic()
    told: list[int] = []

    def submit() -> str | None:
        asked = time.monotonic()
        with stack.client() as client:
            answer = client.post("/api/v1/jobs", json={"task": "drill.echo", "args": ["after"]})
        assert time.monotonic() - asked < ANSWERED_WITHIN_S
        told.append(answer.status_code)
        return str(answer.json()["operation_id"]) if answer.status_code == 202 else None

    after = wait_until(submit, within_s=20, what="the door to accept again")
    assert set(told[:-1]) <= {503}
    wait_until(lambda: stack.job(after)["status"] == "succeeded", within_s=30, what="a worker to run it")
    assert stack.job(after)["result"] == "after"
    wait_until(lambda: stack.get("/api/v1/queues")["seq"] > seq + 2, within_s=20, what="frames to go on")
    assert time.monotonic() - began < 40
    stack.stop()

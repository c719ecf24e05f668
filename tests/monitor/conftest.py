"""What does a test of a loop start from? A gate on a real Redis with policies, and an empty database."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.admission.policy import load_shipped
from workers.loops.frame.inputs import DatabaseFacts
from workers.loops.sampler import Sampler
from workers.store import Offer, Store
from workers.store.turns import Settlement

SHIPPED = Path(__file__).parents[2] / "config" / "queues.toml"

Latest = Callable[[], tuple[dict[str, Any], dict[str, Any]] | None]


@pytest.fixture
def gate(db: None, redis_url: str) -> Iterator[Store]:
    store = Store.from_url(redis_url)
    for queue, policy in load_shipped(SHIPPED).items():
        store.publish_policy(queue, policy.as_fields(), version=1)
    yield store
    store.client.close()


class Sampled:
    """A sampler that broadcasts into a list and is asked for a frame when a test wants one."""

    def __init__(self, store: Store, facts: DatabaseFacts | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self.facts = facts or DatabaseFacts()
        self.sampler = Sampler(
            store,
            installation="test",
            broadcast=lambda text: self.sent.append(json.loads(text)),
            facts=lambda: self.facts,
        )

    def latest(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        self.sampler.tick()
        return self.sampler.latest()


@pytest.fixture
def sampled(gate: Store) -> Sampled:
    return Sampled(gate)


def make_offer(number: int, queue: str = "normal", **more: Any) -> Offer:
    body = base64.b64encode(json.dumps([[number], {}, {}]).encode()).decode()
    payload = json.dumps({"b": body, "h": {"task": "drill.fail"}, "p": {}}).encode()
    return Offer(id=f"job-{number}", task="drill.fail", queue=queue, payload=payload, **more)


def fail_jobs(store: Store, count: int, queue: str = "normal", first: int = 0) -> list[str]:
    """Jobs that were run and failed for good: they wait in the spool."""
    offers = [make_offer(number, queue) for number in range(first, first + count)]
    assert all(verdict.accepted for verdict in store.admit(offers))
    return fail_waiting(store, queue)


def fail_waiting(store: Store, queue: str = "normal") -> list[str]:
    failed: list[str] = []
    while claimed := store.claim("w1@host", [queue], 50):
        store.settle(
            [
                Settlement(
                    job.id,
                    job.epoch,
                    "failed",
                    started_at_ms=store.clock.now_ms(),
                    run_ms=5,
                    error={
                        "type": "DrillFailed",
                        "message": f"customer {job.id} is not known",
                        "traceback": 'Traceback:\n  File "/srv/app/drills.py", line 3, in fail\n    raise',
                    },
                )
                for job in claimed
            ]
        )
        failed += [job.id for job in claimed]
    return failed

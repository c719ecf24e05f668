"""What do these tests share? One installation, and its own jobs beside the drills."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.engine.conftest import pytest_collection_modifyitems
from tests.support.stack import Stack

from .house import House, Worker

__all__ = ["house", "leave_no_worker", "pools", "pytest_collection_modifyitems"]


@pytest.fixture(scope="package")
def house(gate_up: Callable[..., Stack]) -> Iterator[House]:
    # Made anew where the tests with a browser come last: what others left in its queues is none of theirs.
    name = f"field {uuid.uuid4().hex[:6]}"
    # Its server is killed too: what it has answered is on the disk.
    settings = {"SLUICEGATE_IMPORTS": "tests.field.jobs,tests.field.shop", "SLUICEGATE_DURABILITY": "always"}
    stack = gate_up(name=name, SLUICEGATE_WORKERS="2", **settings)
    house = House(stack)
    for queue in ("critical", "urgent", "normal", "bulk"):
        house.put_policy(queue, lease_s=1)
    yield house
    house.close()
    stack.end()


@pytest.fixture(scope="package")
def pools(house: House) -> Iterator[dict[str, str]]:
    """A queue for each kind of pool, served by a live worker of that kind; `urgent` is served by two."""
    queues = {"prefork": "normal"} | {pool: house.make_queue(lease_s=1) for pool in ("threads", "solo")}
    kept = [
        Worker(house, queue=f"{queues['threads']},urgent", pool="threads", slots=2),
        Worker(house, queue=queues["solo"], pool="solo", slots=1),
    ]
    house.await_workers(kept)
    house.workers.clear()
    yield queues
    for worker in kept:
        assert worker.process.poll() is None, f"the worker {worker.name} did not live"
        worker.kill()


@pytest.fixture(autouse=True)
def leave_no_worker(request: pytest.FixtureRequest) -> Iterator[None]:
    """A worker that a test started ends with it."""
    yield
    if "house" in request.fixturenames:
        house: House = request.getfixturevalue("house")
        for worker in house.workers:
            worker.kill()
        house.workers.clear()

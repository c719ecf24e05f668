"""What does a test of the engine start from? An empty gate on a real server, with small policies."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.store import Store

from . import audit
from .servers import Server

#: Bounds that a test reaches in a few offers.
SMALL = {
    "critical": {"strict_rank": 0, "max_count": 50},
    "urgent": {"strict_rank": 1, "max_count": 50},
    "normal": {"weight": 3, "max_count": 40, "max_bytes": 4000, "max_cost_ms": 20000, "saturated_share": 0.5},
    "bulk": {"weight": 1, "max_count": 40, "saturated_share": 0},
}


def publish(store: Store, policies: dict[str, dict[str, object]]) -> None:
    for queue, fields in policies.items():
        store.publish_policy(queue, fields, version=1)


@pytest.fixture(scope="session")
def engine_server() -> Iterator[Server]:
    """A server for this session's tests of the engine."""
    with tempfile.TemporaryDirectory(prefix="sg-engine-") as directory:
        server = Server(Path(directory) / "r").start()
        yield server
        server.close()


@pytest.fixture
def store(engine_server: Server) -> Iterator[Store]:
    """An empty gate with the queues of SMALL. What it holds at the end of the test must add up."""
    store = Store.from_url(engine_server.url)
    store.client.flushall()
    publish(store, SMALL)
    yield store
    faults = audit.find_faults(store)
    store.client.close()
    assert not faults, "\n".join(faults[:20])

"""What does a test of the engine start from? An empty gate on a real server, with small policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from workers.store import Store
from workers.transport import registry

from ..support.servers import RedisServer
from . import audit

#: Bounds that a test reaches in a few offers.
SMALL: dict[str, dict[str, Any]] = {
    "critical": {"strict_rank": 0, "max_count": 50},
    "urgent": {"strict_rank": 1, "max_count": 50},
    "normal": {"weight": 3, "max_count": 40, "max_bytes": 4000, "max_cost_ms": 20000, "saturated_share": 0.5},
    "bulk": {"weight": 1, "max_count": 40, "saturated_share": 0},
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: takes minutes; runs only when asked for (-m soak)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "soak" in (config.option.markexpr or ""):
        return
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: -m soak"))


def publish(store: Store, policies: dict[str, dict[str, Any]]) -> None:
    for queue, fields in policies.items():
        store.publish_policy(queue, fields, version=1)


@pytest.fixture
def store(redis_url: str) -> Iterator[Store]:
    """An empty gate with the queues of SMALL. What it holds at the end of the test must add up."""
    store = Store.from_url(redis_url)
    publish(store, SMALL)
    yield store
    registry.end_producers()  # what this process knows of the gate ends with it
    faults = audit.find_faults(store)
    store.client.close()
    assert not faults, "\n".join(faults[:20])


@pytest.fixture
def broker(redis_server: RedisServer, store: Store) -> str:
    """The URL of the gate of ``store`` for a Celery application."""
    return f"sluicegate+socket://{redis_server.socket_path}?virtual_host=0"

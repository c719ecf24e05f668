"""Does everything find the new primary after a failover, by one form of URL?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

import workers
from tests.support.sentinel import MASTER, Watched
from tests.support.waiting import wait_until
from workers.exceptions import StoreUnavailable
from workers.store import Offer, Store
from workers.store.connections import read_sentinel_url

ANSWERED_WITHIN_S = 2.0


@pytest.fixture
def watched(short_dir: Path) -> Iterator[Watched]:
    found = Watched(short_dir / "watched")
    yield found
    found.stop()


def offer(number: int) -> Offer:
    return Offer(id=f"j{number}", task="t", queue="normal", payload=b'{"b":"W10=","h":{},"p":{}}')


def test_a_failover_is_gone_through_without_a_hand(watched: Watched) -> None:
    store = Store.from_url(watched.url)
    store.publish_policy("normal", {"weight": 1, "max_count": 1000}, version=1)
    assert store.admit([offer(0)])[0].accepted
    app = Celery("shop", broker=watched.url)
    workers.install(app)
    app.conf.task_default_queue = "normal"
    app.conf.broker_transport_options = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0}

    @app.task(name="shop.note", ignore_result=True, shared=False)
    def note(number: int) -> None: ...

    note.delay(0)
    assert store.size("normal") == 2
    watched.fail_over()
    began = time.monotonic()

    def is_accepted() -> bool:
        asked = time.monotonic()
        try:
            return store.admit([offer(1)])[0].accepted
        except StoreUnavailable:
            return False
        finally:
            assert time.monotonic() - asked < ANSWERED_WITHIN_S

    wait_until(is_accepted, within_s=15, what="the store to find the new primary")
    store_back_s = time.monotonic() - began
    assert watched.address()[1] == watched.second.port
    wait_until(lambda: note.apply_async((1,), retry=False), within_s=10, what="a producer to find it")
    assert store.size("normal") >= 3
    assert [job.id for job in store.claim("w@h", ["normal"], 1)] == ["j0"]
    assert store.health()["state"] == "ok"
    watched.first.start()  # the old primary: nobody writes there any more
    assert store.admit([offer(2)])[0].accepted
    with Store.from_url(watched.second.url()).client as primary:
        assert primary.hexists(store.root + "ops", "j2")
    assert store_back_s < 10
    store.client.close()
    app.close()


@pytest.mark.parametrize(
    ("url", "nodes", "master", "database", "login"),
    [
        ("sluicegate+sentinel://h", (("h", 26379),), "mymaster", 0, (None, None)),
        ("sluicegate+sentinel://a:1,b:2/gate?db=3", (("a", 1), ("b", 2)), "gate", 3, (None, None)),
        ("sluicegate+sentinel://u:p%40@a:1/m", (("a", 1),), "m", 0, ("u", "p@")),
        ("sluicegate+sentinel://:p@[::1]:5/m?db=1", (("::1", 5),), "m", 1, (None, "p")),
    ],
)
def test_a_url_names_sentinels_master_database_and_login(
    url: str, nodes: object, master: str, database: int, login: object
) -> None:
    found = read_sentinel_url(url)
    assert (found.nodes, found.master, found.database) == (nodes, master, database)
    assert (found.username, found.password) == login


@pytest.mark.parametrize(
    ("broker", "options", "master", "database"),
    [
        ("sluicegate+sentinel://a:1,b:2/gate?db=3", {}, "gate", "3"),
        ("sluicegate+sentinel://a:1/3;sluicegate+sentinel://b:2", {"master_name": MASTER}, MASTER, "3"),
        ("sluicegate+sentinel://a:1,b:2/3", {"master_name": MASTER}, MASTER, "3"),
        ("sluicegate+sentinel://a:1,b:2", {"master_name": MASTER}, MASTER, "0"),
        ("sluicegate+sentinel://a:1,b:2", {}, "mymaster", "0"),
    ],
)
def test_kombus_form_is_read_as_the_common_one(
    broker: str, options: dict[str, str], master: str, database: str
) -> None:
    app = Celery("x", broker=broker)
    app.conf.broker_transport_options = options
    workers.install(app)
    connection = app.connection_for_write()
    connection.transport  # noqa: B018 takes the URL apart
    for client in (connection, connection.clone()):
        assert client.transport_options["sluicegate_by_sentinel"] == [("a", 1), ("b", 2)]
        assert (client.transport_options["master_name"], client.virtual_host) == (master, database)
        assert client.transport.Channel.__name__ == "SentinelChannel"

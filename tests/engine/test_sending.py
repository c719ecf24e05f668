"""Is what goes straight to the gate's channel the very message that kombu would have made?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.canvas import Signature
from kombu import Exchange, Queue

from tests.support.servers import RedisServer
from workers import install
from workers.store import Store
from workers.transport import sending
from workers.transport.sending import DirectProducer

LINK = Signature("linked", (1,), immutable=True, options={"task_id": "link-id"})

#: What a caller may ask of one publish.
CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "arguments": {"args": ("ä", [1, 2]), "kwargs": {"when": {"a": None}}},
    "another queue": {"queue": "urgent"},
    "headers": {"headers": {"tenant": "acme", "sluicegate": {"cost_ms": 7, "tags": ["a"]}}},
    "delayed": {"eta": datetime.now(UTC) + timedelta(hours=1)},
    "expires": {"expires": datetime.now(UTC) + timedelta(hours=2)},
    "priority": {"priority": 5},
    "a link": {"link": LINK},
    "pickled": {"serializer": "pickle"},
    "compressed": {"compression": "zlib"},
    "transient": {"delivery_mode": 1},
    "an answer": {"reply_to": "somebody"},
}
#: Of them, those that kombu's own way takes.
INDIRECT = {"priority", "compressed", "transient"}


def do_nothing(*args: Any, **kwargs: Any) -> None:
    pass


@pytest.fixture
def app(broker: str, store: Store) -> Iterator[Celery]:
    app = Celery("sending", broker=broker, set_as_current=False)
    app.conf.update(task_default_queue="normal", task_ignore_result=True)
    app.task(name="sent", shared=False)(do_nothing)
    install(app)
    for queue in ("normal", "urgent"):
        app.tasks["sent"].apply_async(queue=queue)  # the channel is open from now on, and knows the queue
    yield app
    app.close()


@pytest.fixture
def by_kombu(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each publish took kombu's own way."""
    seen: list[bool] = []
    plain = sending._is_plain

    def is_plain(options: Any) -> bool:
        seen.append(not plain(options))
        return not seen[-1]

    monkeypatch.setattr(sending, "_is_plain", is_plain)
    return seen


def stored(app: Celery, store: Store, op_id: str, call: dict[str, Any]) -> tuple[Any, Any]:
    """The record and the message of one accepted publish, without what differs from call to call."""
    app.tasks["sent"].apply_async(**{**call, "task_id": op_id})
    operation = store.read_operation(op_id)
    assert operation is not None
    message = json.loads(store.client.hget(store.root + "payloads", op_id))
    if "expiration" in message["p"]:  # ms from the call
        message["p"]["expiration"] = round(int(message["p"]["expiration"]) / 60_000)
    return (operation.task, operation.queue, operation.tenant, operation.status), message


@pytest.mark.parametrize("name", CALLS)
def test_it_is_the_message_that_kombu_would_have_made(
    app: Celery, store: Store, by_kombu: list[bool], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    straight = stored(app, store, "straight", CALLS[name])
    assert by_kombu == [name in INDIRECT]
    monkeypatch.setattr(sending, "_is_plain", lambda options: False)
    assert stored(app, store, "by-kombu", CALLS[name]) == straight


def test_who_names_an_exchange_goes_kombus_way(app: Celery, store: Store, by_kombu: list[bool]) -> None:
    fan = Queue("urgent", Exchange("fan", type="topic"), routing_key="f.#")
    with app.producer_or_acquire() as producer:
        fan(producer.channel).declare()
    app.tasks["sent"].apply_async(exchange=fan.exchange, routing_key="f.x")
    assert by_kombu == [True]
    assert store.size("urgent") == 2


def test_what_is_no_task_is_kombus(app: Celery, by_kombu: list[bool]) -> None:
    with app.producer_or_acquire() as producer:
        assert isinstance(producer, DirectProducer)
        producer.publish({"hello": 1}, routing_key="mail", declare=[Queue("mail")])
    assert by_kombu == [True]
    with app.connection_for_write() as connection:
        assert connection.default_channel.client.llen("mail") == 1


def test_a_channel_is_used_only_while_it_is_open(app: Celery) -> None:
    with app.connection_for_write() as connection:
        producer = DirectProducer(connection)
        assert producer._open_channel() is None
        assert connection.default_channel is producer._open_channel()
    assert producer._open_channel() is None


def test_on_another_broker_all_goes_kombus_way(redis_server: RedisServer) -> None:
    with Celery(broker=f"redis+socket://{redis_server.socket_path}", set_as_current=False) as app:
        install(app)
        app.task(name="sent", shared=False)(do_nothing)
        for _ in range(2):
            app.tasks["sent"].apply_async(queue="mail")
        with app.connection_for_write() as connection:
            assert connection.default_channel.client.llen("mail") == 2

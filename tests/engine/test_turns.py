"""Does what a worker has done with reach the gate with its next claim, whatever becomes of that claim?"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from kombu.asynchronous import Hub

from tests.support.servers import RedisServer
from tests.support.waiting import wait_until
from workers import install
from workers.limits.downstream import parse_downstream
from workers.store import Settlement, Store
from workers.transport import registry
from workers.transport.channel import REST_S

from . import audit
from .test_admission import an_offer
from .test_delivery import put_in_flight, status_of


def test_a_turn_gives_a_slot_back_and_fills_it(store: Store) -> None:
    """Where one job of a queue may run, its end and the next one's start are one step."""
    store.publish_policy("normal", {"max_in_flight": 1, "max_count": 40}, version=2)
    first = put_in_flight(store)
    store.admit([an_offer()])
    assert store.claim("w", ["normal"]) == []
    turn = store.take_turn("w", ["normal"], 1, [Settlement(first.id, first.epoch, "succeeded", 1, 5)])
    assert turn.words == ["settled"]
    assert len(turn.jobs) == 1
    assert audit.find_faults(store) == []


@pytest.mark.parametrize(
    ("policy", "facts"),
    [
        ({"max_in_flight": 1}, {}),
        ({"max_in_flight_per_task": {"t": 1}}, {}),
        ({"downstream": "bank"}, {}),
        ({}, {"downstream": "bank"}),
        ({}, {"ordering_key": "k"}),
    ],
    ids=["queue", "task", "downstream of the queue", "downstream of the task", "ordering key"],
)
def test_what_ends_and_begins_in_one_turn_keeps_within_a_limit_of_one(
    store: Store, policy: dict[str, Any], facts: dict[str, Any]
) -> None:
    store.publish_downstream("bank", parse_downstream({"initial": 1, "max": 1}).as_fields(), version=1)
    store.publish_policy("normal", {"max_count": 40, **policy}, version=2)
    store.admit([an_offer(task="t", **facts) for _ in range(4)])
    (job,) = store.claim("w", ["normal"], 5)
    for _ in range(3):
        turn = store.take_turn("w", ["normal"], 5, [Settlement(job.id, job.epoch, "succeeded", 1, 5)])
        assert turn.words == ["settled"]
        (job,) = turn.jobs
    assert audit.find_faults(store) == []


def test_a_stale_end_changes_nothing_and_the_turn_goes_on(store: Store) -> None:
    first = put_in_flight(store)
    store.admit([an_offer()])
    turn = store.take_turn("w", ["normal"], 1, [Settlement(first.id, first.epoch - 1, "succeeded")])
    assert turn.words == ["stale"]
    assert len(turn.jobs) == 1
    assert status_of(store, first.id) == "pending"


def test_a_job_given_back_in_a_turn_may_be_taken_in_the_same(store: Store) -> None:
    first = put_in_flight(store)
    turn = store.take_turn("w", ["normal"], 1, [Settlement(first.id, first.epoch, "requeued")])
    assert turn.words == ["returned"]
    assert [(job.id, job.deliveries) for job in turn.jobs] == [(first.id, 2)]


class Loop:
    """A consumer in an event loop of its own, as a worker runs it; each job succeeds as it arrives."""

    def __init__(self, app: Celery) -> None:
        self.app, self.hub = app, Hub()
        self.connection = app.connection_for_read()
        self.connection.register_with_event_loop(self.hub)
        self.channel: Any = self.connection.default_channel
        self.ended: list[str] = []
        self.consumer = app.amqp.TaskConsumer(self.channel, on_message=self._succeed)
        self.consumer.qos(prefetch_count=1)
        self.consumer.consume()
        self.steps = self.hub.create_loop()

    def _succeed(self, message: Any) -> None:
        found = registry.held_by_tag(message.delivery_tag)
        assert found is not None
        found[0].taken, found[0].outcome = True, "succeeded"
        message.ack()
        self.ended.append(found[0].id)

    def send(self) -> str:
        return str(self.app.send_task("t").id)

    def turn(self) -> None:
        next(self.steps)

    def close(self) -> None:
        self.connection.close()
        self.hub.close()


@pytest.fixture
def loop(redis_server: RedisServer, store: Store) -> Iterator[Loop]:
    broker = f"sluicegate+socket://{redis_server.socket_path}?virtual_host=0"
    app = Celery(f"a{uuid.uuid4().hex[:6]}", broker=broker, set_as_current=False)
    app.conf.update(task_default_queue="normal", task_ignore_result=True)
    install(app)
    loop = Loop(app)
    yield loop
    for holdings in registry.own_holdings():
        holdings.close()
    loop.close()
    app.close()


def step_until(loop: Loop, is_so: Any) -> None:
    def turn_and_ask() -> bool:
        loop.turn()
        return bool(is_so())

    wait_until(turn_and_ask, within_s=20, what="the loop to come to it")


def test_ends_go_with_the_claims_and_each_job_ends_once(store: Store, loop: Loop) -> None:
    ids = [loop.send() for _ in range(10)]
    step_until(loop, lambda: len(loop.ended) == 10)
    step_until(loop, lambda: all(status_of(store, op_id) == "succeeded" for op_id in ids))
    totals = store.snapshot()["queues"]["normal"]["totals"]
    assert totals["succeeded"] == 10
    assert totals.get("stale_settles", 0) == 0


def settled(store: Store) -> int:
    return int(store.snapshot()["queues"]["normal"]["totals"]["succeeded"])


def test_what_ends_while_a_claim_is_on_its_way_goes_with_the_next(
    store: Store, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word of its own would stand in line behind the claim, with the worker's loop waiting for it."""
    held: list[Any] = []
    told: list[int] = []
    succeed, holdings = loop.consumer.on_message, loop.channel.holdings
    monkeypatch.setattr(loop.consumer, "on_message", held.append)
    monkeypatch.setattr(holdings, "try_to_tell_ends", lambda: told.append(1))
    monkeypatch.setattr(holdings, "_keep_alive", lambda: None)  # a heartbeat would tell ends too
    loop.consumer.qos(prefetch_count=2)
    ids = [loop.send(), loop.send()]
    step_until(loop, lambda: len(held) == 2)
    to_the_gate = loop.connection.transport.cycle.on_poll_start
    succeed(held[0])
    to_the_gate()
    succeed(held[1])
    to_the_gate()
    assert len(loop.channel._telling[1]) == 1 and loop.channel._has_ends
    step_until(loop, lambda: all(status_of(store, op_id) == "succeeded" for op_id in ids))
    assert not told
    assert settled(store) == 2


def test_a_socket_is_registered_once_and_again_where_another_took_its_place(loop: Loop) -> None:
    """kombu does so with each tick, a system call each."""
    loop.send()
    step_until(loop, lambda: loop.ended)
    cycle = loop.connection.transport.cycle
    assert cycle._fd_to_chan and cycle.fds == {}
    (fd,) = (fd for fd, (_, kind) in cycle._fd_to_chan.items() if kind == "BRPOP")
    # As a connection lost and made anew has it: the same number, and another transport's way to read it.
    loop.hub.add_reader(fd, print, fd)
    assert list(cycle.fds) == [fd]
    loop.send()
    step_until(loop, lambda: len(loop.ended) == 2)
    assert cycle.fds == {}
    loop.hub.remove_reader(fd)
    assert list(cycle.fds) == [fd]


@pytest.mark.parametrize("arrived", [True, False])
def test_an_end_whose_claim_was_not_answered_is_told_again(
    store: Store, loop: Loop, arrived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks with the claim on its way: whether the gate got it cannot be known."""
    op_id = loop.send()
    broken: list[str] = []
    connection: Any = None

    def break_once(*command: Any) -> None:
        if arrived:
            send(*command)
            read()
        broken.append(loop.ended[0])

    def fail() -> Any:
        connection.disconnect()
        raise redis.ConnectionError("cut")

    step_until(loop, lambda: loop.ended)
    connection = loop.channel.client.connection
    send, read = connection.send_command, connection.read_response
    monkeypatch.setattr(connection, "send_command", break_once)
    monkeypatch.setattr(connection, "read_response", fail)
    loop.connection.transport.cycle.on_poll_start()  # the loop's next turn: the claim, and with it the end
    assert broken == [op_id]
    assert (status_of(store, op_id) == "succeeded") is arrived
    with pytest.raises(redis.ConnectionError):
        loop.channel.handlers["BRPOP"]()
    loop.channel.close()
    wait_until(lambda: status_of(store, op_id) == "succeeded", within_s=20, what="its end to be told")
    assert store.snapshot()["queues"]["normal"]["totals"]["succeeded"] == 1


def test_a_redis_that_refuses_claims_is_left_in_peace_between_them(
    store: Store, loop: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Read-only after a failover, or its disk full: each answer comes at once, as would the next claim."""
    loop.send()
    step_until(loop, lambda: loop.ended)
    refused_at: list[float] = []
    rest = loop.channel._rest

    def note(why: str) -> None:
        refused_at.append(time.monotonic())
        rest(why)

    monkeypatch.setattr(loop.channel, "_rest", note)
    store.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    step_until(loop, lambda: len(refused_at) >= 3)
    assert refused_at[2] - refused_at[0] > 1.9 * REST_S
    assert [record.getMessage() for record in caplog.records if "a claim failed" in record.message] == [
        f"a claim failed and is tried again every 1 s: {loop.channel._refused}"
    ]
    assert "READONLY" in loop.channel._refused or "read only" in loop.channel._refused
    store.client.execute_command("REPLICAOF", "NO", "ONE")
    loop.send()
    step_until(loop, lambda: len(loop.ended) == 2)

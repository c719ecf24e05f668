"""What does kombu's Redis channel do otherwise when the gate decides? Every kombu quirk lives here."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from queue import Empty
from typing import Any

import redis as redis_py
from kombu.transport import redis as stock
from kombu.transport import virtual
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, OutOfMemoryError
from redis.retry import Retry

from ..admission import envelope
from ..admission.messages import offer_from_message
from ..exceptions import StoreUnavailable
from ..limits.producer import Producer
from ..privacy.seal import MissingKey, unseal
from ..states import DEFAULT_QUEUE
from ..store import Claimed, Offer, Store, Verdict, keys, scripts
from ..store.connections import TIMEOUT_S, Watched, open_sentinel
from ..store.durability import REPLICA, REPLICA_WAIT_MS
from ..store.turns import Settlement, parse_turn, turn_arguments
from . import registry
from .holdings import Held, Holdings, note_error
from .publishing import (
    Collected,
    current_batch,
    keep_verdict,
    mints_ids,
    name_producer,
    raise_refusal,
)

logger = logging.getLogger("sluicegate.transport")

#: Transport option that names the sentinels of a connection made from a sentinel URL.
BY_SENTINEL = "sluicegate_by_sentinel"

#: Jobs taken in one claim at most. More would hold urgent work behind what was taken before it.
MOST_PER_CLAIM = 10

#: How long the publish of work that is accepted already (a retry, a later link) waits for Redis, in s.
PATIENCE_S = 30.0

#: How often a job of an unknown task is shown to a worker, until its queue's `unknown_task_grace_s` is over.
UNKNOWN_TASK_RETRY_MS = 1_000


#: After a claim that Redis refused (read-only, a full disk) a worker leaves it in peace for so long, in s.
REST_S = 1.0

#: Adds a binding to a full Redis: a removal first lets the rest of a script pass.
_BIND = """
redis.call('DEL', KEYS[1] .. ':nothing')
for _, key in ipairs(KEYS) do redis.call('SADD', key, ARGV[1]) end
"""


class QoS(stock.QoS):
    """Settling in place of acks; what runs keeps its lease over reconnects."""

    def append(self, message: Any, delivery_tag: str) -> None:
        if registry.held_by_tag(delivery_tag):
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        found = registry.held_by_tag(delivery_tag)
        if found is None:
            if delivery_tag in self._delivered:
                self._ack_stock(delivery_tag)
            return
        held, holdings = found
        if not held.taken and held.outcome is None:
            # Celery acks what it cannot decode. No request was made of it, so it did not run.
            self._refuse_to_run(held)
        elif held.outcome == "lost":
            # Celery acks a job whose process is gone only where its success had been stored.
            held.outcome, held.error = "succeeded", None
        self.channel.end(held, holdings, "succeeded")
        virtual.QoS.ack(self, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        found = registry.held_by_tag(delivery_tag)
        if found is None:
            if delivery_tag in self._delivered and "/" not in delivery_tag:
                super().reject(delivery_tag, requeue=requeue)
            return
        held, holdings = found
        if held.outcome is None:
            if requeue:
                held.outcome = held.word_to_give_back()
            else:
                self._refuse_to_run(held)
        self.channel.end(held, holdings, "requeued" if requeue else "failed")
        virtual.QoS.ack(self, delivery_tag)

    def _ack_stock(self, delivery_tag: str) -> None:
        if "/" in delivery_tag:
            # A delivery of the gate that is settled already.
            virtual.QoS.ack(self, delivery_tag)
        else:
            super().ack(delivery_tag)

    @staticmethod
    def _refuse_to_run(held: Held) -> None:
        if held.taken:
            held.outcome, held.quarantine_reason = "failed", "rejected"
            note_error(held, "Rejected", "the worker rejected the message")
        elif registry.knows_task(held.task):
            held.outcome, held.quarantine_reason = "failed", "undecodable"
            note_error(held, "DecodeError", "the worker could not read the message")
        else:
            # How long it waits for a worker that knows it is the queue's policy, and settle's to apply.
            held.outcome, held.quarantine_reason = "requeued", "unknown_task"
            held.delay_ms = UNKNOWN_TASK_RETRY_MS
            note_error(held, "NotRegistered", f"no worker knows a task named {held.task}")

    def restore_unacked(self, client: Any = None) -> None:
        """On a lost connection, give back only what does not run: Celery flushes it from its pool.

        kombu would requeue all that was delivered, running jobs included, at every blip.
        """
        gate_tags = [tag for tag in self._delivered if "/" in tag]
        for tag in gate_tags:
            found = registry.held_by_tag(tag)
            word = found[0].word_to_give_back() if found else "requeued"
            if found and word != "requeued":
                found[0].outcome = word
                found[1].settle(found[0], "released")
            self._delivered.pop(tag, None)
        connection = self.channel.connection
        if self._delivered and connection is not None and connection.client is not None:
            super().restore_unacked(client=client)
        self._delivered.clear()

    def restore_visible(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: leases that ran out are taken back by the reaper, atomically and for every queue."""


_Base: Any = object


class GateChannel(_Base):
    """A channel whose task messages pass the gate. All else is kombu's own Redis channel."""

    QoS = QoS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = args[0].client.transport_options if args else {}
        self.gate = options.get("gate") or os.environ.get("SLUICEGATE_GATE") or "main"
        self.gate_root = keys.root(self.gate)
        wish = options.get("durability") or os.environ.get("SLUICEGATE_DURABILITY")
        self._wait_replicas = int(wish == REPLICA)
        self._gate_store: tuple[int, Store] | None = None
        self._producer: tuple[int, Producer] | None = None
        self._holdings: tuple[int, Holdings] | None = None
        self._poll_kind = ""
        self._claim_next = True
        self._has_ends = False
        self._telling: tuple[Holdings, list[Settlement]] | None = None
        self._rests_until = 0.0
        self._refused = ""
        super().__init__(*args, **kwargs)

    def _get_client(self) -> Any:
        """kombu's first word to the server comes next, on a connection that waits without a limit.

        A producer that starts while Redis hangs would hang with it; so the store asks first, within its own.
        """
        self.gate_store.client.ping()
        return super()._get_client()

    # The store of this channel, and this process's holdings.

    def _open_store(self) -> Store:
        params = dict(self._connparams())
        params["socket_timeout"] = params.get("socket_timeout") or TIMEOUT_S
        if "path" not in params:
            params["socket_connect_timeout"] = params.get("socket_connect_timeout") or TIMEOUT_S
        params["retry"] = None
        params.pop("retry_on_timeout", None)
        client = redis_py.Redis(connection_pool=self._make_pool(params))
        return Store(client, self.gate, wait_replicas=self._wait_replicas)

    def _make_pool(self, params: dict[str, Any]) -> redis_py.ConnectionPool:
        return redis_py.ConnectionPool(**params)

    @property
    def gate_store(self) -> Store:
        if self._gate_store is None or self._gate_store[0] != os.getpid():
            self._gate_store = (os.getpid(), self._open_store())
        return self._gate_store[1]

    @property
    def gate_producer(self) -> Producer:
        pid = os.getpid()
        if self._producer is None or self._producer[0] != pid:
            address = self.connection.client.as_uri()
            self._producer = (pid, registry.producer_of(address, self.gate, self.gate_store))
        return self._producer[1]

    @property
    def holdings(self) -> Holdings:
        pid = os.getpid()
        if self._holdings is None or self._holdings[0] != pid:
            address = self.connection.client.as_uri()
            self._holdings = (pid, registry.holdings_of(address, self.gate, self._open_store))
        return self._holdings[1]

    # Publishing.

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        headers = message.get("headers")
        if not isinstance(headers, dict) or "task" not in headers or "id" not in headers:
            super()._put(queue, message, **kwargs)
            return
        offer = offer_from_message(message, queue, now=datetime.now(UTC), minted=mints_ids())
        batch = current_batch()
        if batch is not None:
            batch.add(offer, self._admit_whole)
            raise Collected
        verdict = self._admit([offer])[0]
        raise_refusal(verdict)
        keep_verdict(verdict)

    def _admit_whole(self, offers: list[Offer]) -> list[Verdict]:
        return self._admit(offers, whole=True)

    def _admit(self, offers: list[Offer], *, whole: bool = False) -> list[Verdict]:
        """Asks the gate. Work that was accepted before waits out a Redis that is away; new work does not."""
        give_up = time.monotonic() + (PATIENCE_S if offers[0].retries else 0)
        producer = self.gate_producer
        name_producer(producer)
        while True:
            store = self.gate_store
            limit = store.clock.now_ms() + int(TIMEOUT_S * 1000) if store.clock.is_set else None
            try:
                verdicts = producer.admit(
                    offers,
                    lambda asking: store.admit(asking, whole=whole, not_after_ms=limit),  # noqa: B023
                )
                if store.wait_replicas:
                    _say_unconfirmed(verdicts)
                return verdicts
            except StoreUnavailable:
                if time.monotonic() >= give_up:
                    raise
                time.sleep(0.25)

    # Consuming: a claim, and while there is nothing to claim a wait for the bell.

    def _gated_queues(self) -> list[str]:
        return [queue for queue in self.active_queues if registry.is_task_queue(queue)]

    def _brpop_start(self, timeout: float | None = None) -> None:
        self._keep_untold()
        if time.monotonic() < self._rests_until:
            return  # nothing is on its way, so kombu asks again with its next tick
        gated = self._gated_queues()
        if not gated:
            self._poll_kind = "stock"
            super()._brpop_start(timeout)
            return
        connection = self.client.connection
        if self._claim_next or self._has_ends:
            room = self.qos.can_consume_max_estimate()
            # Before the worker has said how many it wants, one: what is taken cannot be overtaken.
            most = 1 if room is None else max(1, min(room, MOST_PER_CLAIM))
            self._poll_kind = "claim"
            holdings = self.holdings
            ends = holdings.take_ends()
            self._telling, self._has_ends = (holdings, ends), False
            turn = turn_arguments(registry.about.name, gated, most, ends)
            command: list[Any] = ["EVALSHA", scripts.sha("claim"), 1, self.gate_root, *turn]
        else:
            others = [queue for queue in self.active_queues if queue not in gated]
            self._poll_kind = "bell"
            bells = {keys.bell(self.gate_root, queue): None for queue in (*gated, DEFAULT_QUEUE)}
            stock_lists = [self._q_for_pri(queue, step) for step in self.priority_steps for queue in others]
            command = ["BRPOP", *bells, *stock_lists, timeout or self.brpop_timeout or 1]
        self._in_poll = connection
        setattr(self, "_brpop_sent_at", time.monotonic())  # noqa: B010 - kombu's own attribute
        connection.send_command(*command)

    def _brpop_read(self, **options: Any) -> bool:
        kind = self._poll_kind
        if kind == "stock":
            return bool(super()._brpop_read(**options))
        try:
            try:
                reply = self.client.connection.read_response()
            except NoScriptError:
                # A restarted server has forgotten the script; loading it lets the next claim find it.
                self.gate_store.client.execute_command("SCRIPT", "LOAD", scripts.source("claim"))
                raise Empty from None
            except self.connection_errors:
                self.client.connection.disconnect()
                raise
            except redis_py.ResponseError as exc:
                self._rest(exc)
                raise Empty from exc
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()  # as kombu's own does: credentials that were renewed wait for this
        self._refused = ""
        if kind == "bell":
            self._claim_next = True
            if reply and not bytes_to_str(reply[0]).startswith(self.gate_root):
                name = bytes_to_str(reply[0]).rsplit(self.sep, 1)[0]
                self.connection._deliver(loads(bytes_to_str(reply[1])), name)
                return True
            raise Empty
        assert self._telling is not None
        holdings, ends = self._telling
        turn = parse_turn(reply, holdings.store.clock)
        holdings.note_words(ends, turn.words)
        self._telling = None
        self._claim_next = bool(turn.jobs)
        if not turn.jobs:
            raise Empty
        self._deliver_claimed(turn.jobs, holdings)
        return True

    def _rest(self, fault: Exception) -> None:
        """What Redis refuses now it would refuse a thousand times a second; said once, not each time."""
        why = str(fault).partition(" script: ")[0]  # where in a script varies, and helps nobody
        if why != self._refused:
            logger.warning("a claim failed and is tried again every %g s: %s", REST_S, why)
        self._refused = why
        self._rests_until = time.monotonic() + REST_S
        self._claim_next = True

    def end(self, held: Held, holdings: Holdings, outcome: str) -> None:
        """Ends a delivery. In the event loop the next claim tells the gate, and saves it a round trip."""
        # What ran while the connection was lost ends on a channel that has none any more.
        if self.connection is not None and self.connection.is_in_loop():
            holdings.end(held, outcome)
            self._has_ends = True
        else:
            holdings.settle(held, outcome)

    def tell_ends(self) -> None:
        """Tells the gate what no claim takes along: no slot is free, or it waits for the bell.

        While a claim is on its way, that is left to the next one: a word apart would stand in line behind it.
        """
        if self._has_ends and not (self._in_poll and self._poll_kind == "claim"):
            self._has_ends = False
            self.holdings.try_to_tell_ends()

    def _keep_untold(self) -> None:
        """What went with a claim that was never answered is told again; the epochs make that harmless."""
        if self._telling is not None:
            holdings, ends = self._telling
            holdings.keep_ends(ends)
            self._telling = None

    def _deliver_claimed(self, jobs: Iterable[Claimed], holdings: Holdings) -> None:
        taken = [(job, holdings.take(job)) for job in jobs]
        for job, held in taken:
            message = self._message_of(job, held, holdings)
            if message is not None:
                self.connection._deliver(message, self._consumed_name(job.queue))

    @staticmethod
    def _message_of(job: Claimed, held: Held, holdings: Holdings) -> dict[str, Any] | None:
        try:
            small = json.loads(unseal(job.payload, job.id))
            return envelope.restore(
                small,
                op_id=job.id,
                task=job.task,
                queue=job.queue,
                delivery_tag=held.tag,
                epoch=job.epoch,
                payload_class=job.payload_class,
            )
        except MissingKey as exc:
            # Replayed once the key is there: the worker lives, and so does the job.
            held.quarantine_reason = "missing_key"
            note_error(held, type(exc).__name__, str(exc))
            holdings.settle(held, "failed")
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            held.quarantine_reason = "undecodable"
            note_error(held, type(exc).__name__, "the stored message cannot be read")
            holdings.settle(held, "failed")
            return None

    def _consumed_name(self, queue: str) -> str:
        """The name under which this worker consumes a gate's queue (its own, or one without a policy)."""
        callbacks = self.connection._callbacks
        if queue in callbacks:
            return queue
        return next(name for name in self._gated_queues() if name in callbacks)

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        if not registry.is_task_queue(queue):
            message: dict[str, Any] = super()._get(queue)
            return message
        holdings = self.holdings
        for job in holdings.store.claim(registry.about.name, [queue], 1):
            message_or_none = self._message_of(job, holdings.take(job), holdings)
            if message_or_none is not None:
                return message_or_none
        raise Empty

    # Queue administration.

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """A worker that starts while Redis is full is how it drains: its bindings must get in."""
        try:
            super()._queue_bind(exchange, routing_key, pattern, queue)
        except OutOfMemoryError:
            tables = [self.keyprefix_queue]
            if queue not in self._expires:
                tables.append(self.keyprefix_binding_permanent)
            names = [self.global_keyprefix + table % (exchange,) for table in tables]
            member = self.sep.join([routing_key or "", pattern or "", queue or ""])
            with self.conn_or_acquire() as client:
                client.execute_command("EVAL", _BIND, len(names), *names, member)

    def _size(self, queue: str) -> int:
        if not registry.is_task_queue(queue):
            return int(super()._size(queue))
        return self.gate_store.size(queue)

    def _purge(self, queue: str) -> int:
        if not registry.is_task_queue(queue):
            return int(super()._purge(queue))
        return self.gate_store.purge(queue, by="celery purge")

    def close(self) -> None:
        # kombu closes a channel twice when the connection is lost; the second time nothing is left.
        if self.connection is None or self.connection.client is None:
            self.closed = True
        try:
            super().close()
        finally:
            self._keep_untold()


def _say_unconfirmed(verdicts: Iterable[Verdict]) -> None:
    """The job is stored and runs; what it lacks is the copy. An exception would have it sent twice."""
    for verdict in verdicts:
        if verdict.accepted and verdict.accepted_at_ms and verdict.durability != REPLICA:
            logger.warning("%s is accepted; no replica confirmed it in %d ms", verdict.id, REPLICA_WAIT_MS)


class Channel(GateChannel, stock.Channel):
    """The gate over one Redis server."""


class SentinelChannel(GateChannel, stock.SentinelChannel):
    """The gate over a Redis that Sentinel watches."""

    def _make_pool(self, params: dict[str, Any]) -> redis_py.ConnectionPool:
        pool: redis_py.ConnectionPool = self._sentinel_managed_pool()
        for name in ("socket_timeout", "socket_connect_timeout", "retry"):
            pool.connection_kwargs[name] = params[name]
        return pool

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:
        """Of all the sentinels that the URL names; kombu's own would ask each dead one eleven times."""
        params = dict(self._connparams(asynchronous))
        for name in ("host", "port"):
            params.pop(name, None)
        options = self.connection.client.transport_options
        watched = Watched(
            tuple(map(tuple, options[BY_SENTINEL])),
            options["master_name"],
            sentinel_password=options.get("sentinel_password"),
        )
        sentinel = open_sentinel(
            watched,
            {
                "socket_timeout": TIMEOUT_S,
                "socket_connect_timeout": TIMEOUT_S,
                "retry": Retry(NoBackoff(), 0),
            },
        )
        # Kept where kombu looks for the connections that it closes at the end.
        setattr(self, "_async_sentinel_manager" if asynchronous else "_sentinel_manager", sentinel)
        return sentinel.master_for(watched.master, redis_py.Redis, **params).connection_pool

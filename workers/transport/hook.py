"""What does one line, ``install(app)``, change in a Celery application?"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
from contextlib import nullcontext
from typing import Any

from celery import Celery, canvas, signals
from celery.app.amqp import AMQP
from celery.local import maybe_evaluate
from celery.utils.imports import symbol_by_name
from celery.worker import state
from celery.worker.request import Request
from kombu import Queue
from kombu.exceptions import OperationalError
from kombu.utils.objects import cached_property
from redis import RedisError

from ..admission.messages import links_of_embed
from ..exceptions import AdmissionRefused
from ..limits.producer import Producer
from ..privacy.seal import check_keys
from . import delivery, registry, transport
from .publishing import (
    ClosedQueues,
    Collected,
    current_batch,
    keep_refusal,
    name_downstream,
    named_producer,
    offered_facts,
    one_batch,
    set_minting,
    take_refusal,
    take_verdict,
    tell,
)
from .quiet import keep_logs_quiet
from .request import UNFIT, GateRequest, hold_unfit
from .sending import DirectProducer

transport.register()

#: Celery's own default of ``worker_prefetch_multiplier``.
CELERYS_PREFETCH_MULTIPLIER = 4

#: A job that a worker held longer than this before it began is asked about once more, in s.
ASK_AFTER_S = 0.25

#: How often a blocked producer tries again that has not been told of room, in s.
BLOCK_STEP_S = 1.0


def install(app: Celery) -> Celery:
    """Hooks an application: refusals are raised from ``delay()``, groups are admitted whole.

    Call it once, where the application is made. Workers of the application settle by outcome: a job's
    lease ends at the end of its task, whatever ``acks_late`` says.
    """
    if registry.is_hooked(app):
        return app
    check_keys()
    registry.add_app(app)
    base = app.amqp_cls if isinstance(app.amqp_cls, type) else AMQP
    app.amqp_cls = type("GateAMQP", (_GateAMQP, base), {})
    app.__dict__.pop("amqp", None)
    app.loader.override_backends = {
        **app.loader.override_backends,
        "sluicegate": f"{__package__}.results:ResultBackend",
    }
    app.send_task = _Sender(app)
    _hook_groups()
    return app


class _Sender:
    """``app.send_task``, above kombu: refuses locally while a queue is known to be closed."""

    def __init__(self, app: Celery) -> None:
        self.app = app
        self.send = type(app).send_task.__get__(app)
        self.closed = ClosedQueues()
        self._reporter: threading.Thread | None = None
        self._producer: tuple[int, Producer] | None = None
        functools.update_wrapper(self, type(app).send_task)

    def __call__(self, name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        name_downstream(options)
        tenant, fresh = offered_facts(options)
        producer = self.producer
        if fresh and not (self.closed.is_empty and (producer is None or producer.is_at_ease)):
            known = self._refuse_here(self._queue_of(name, args, kwargs, options), tenant, producer)
            if known is not None:
                self._report_soon()
                raise known
        minting = set_minting(fresh)
        try:
            result = self.send(name, args, kwargs, **options)
        finally:
            set_minting(minting)
        refusal = take_refusal()
        if producer is None and (found := named_producer()) is not None:
            self._producer = (os.getpid(), found)
        if refusal is not None and refusal.block_s > 0 and fresh:
            result, refusal = self._wait_for_room(refusal, name, args, kwargs, options)
        if refusal is not None:
            if fresh:
                self.closed.close(self._queue_of(name, args, kwargs, options), tenant, refusal)
            raise refusal
        verdict = take_verdict()
        if verdict is not None and verdict.id == getattr(result, "id", None):
            tell(result, verdict)
        return result

    @property
    def producer(self) -> Producer | None:
        """This process as a producer, once it has published something by the gate."""
        known = self._producer
        return known[1] if known is not None and known[0] == os.getpid() else None

    def _refuse_here(self, queue: str, tenant: str, producer: Producer | None) -> AdmissionRefused | None:
        """The refusal that this process makes by itself, counted; None where the gate is to be asked."""
        known = self.closed.check(queue, tenant)
        if known is not None or producer is None:
            return known
        told = producer.why_not(queue, tenant)
        if told is None:
            return None
        self.closed.note(queue, tenant, told[0])
        return AdmissionRefused(queue, *told)

    def _wait_for_room(
        self, refusal: AdmissionRefused, name: str, args: Any, kwargs: Any, options: dict[str, Any]
    ) -> tuple[Any, AdmissionRefused | None]:
        """Tries again until there is room or the queue's ``block_s`` has passed."""
        give_up = time.monotonic() + refusal.block_s
        standing: AdmissionRefused | None = refusal
        result = None
        producer = self.producer
        with producer.blocked(refusal.queue) if producer else nullcontext():
            self._report_soon()
            while standing is not None and time.monotonic() < give_up:
                self._listen(standing.queue, min(time.monotonic() + BLOCK_STEP_S, give_up))
                result = self.send(name, args, kwargs, **options)
                standing = take_refusal()
        return result, standing

    def _listen(self, queue: str, until: float) -> None:
        """Returns when room was made in the queue, or at ``until`` (monotonic)."""
        try:
            with self.app.producer_or_acquire() as producer:
                store = producer.connection.default_channel.gate_store
            while (left := until - time.monotonic()) > 0 and store.wait_for_room([queue], left) is None:
                pass
        except (OperationalError, OSError):
            time.sleep(max(0.0, min(0.2, until - time.monotonic())))

    def _queue_of(self, name: str, args: Any, kwargs: Any, options: dict[str, Any]) -> str:
        queue = options.get("queue")
        if queue is None:
            queue = self.app.amqp.router.route(dict(options), name, args or (), kwargs or {}).get("queue")
        return str(getattr(queue, "name", queue) or self.app.conf.task_default_queue)

    def _report_soon(self) -> None:
        """Local refusals and waits are told to the gate within two seconds."""
        if self._reporter is None or not self._reporter.is_alive():
            if self._reporter is None:
                atexit.register(self._report_now)
            self._reporter = threading.Thread(target=self._report, name="sluicegate-refusals", daemon=True)
            self._reporter.start()

    def _report(self) -> None:
        idle_until = time.monotonic() + 30
        while time.monotonic() < idle_until:
            time.sleep(0.5)
            if self._report_now():
                idle_until = time.monotonic() + 30

    def _report_now(self) -> bool:
        """Sends what was counted since the last time; kept for the next time where that fails."""
        counts, producer = self.closed.take_counts(), self.producer
        if not counts and not (producer and producer.has_news):
            return False
        try:
            with self.app.connection_for_write() as connection:
                store = connection.default_channel.gate_store
                if counts:
                    store.report_refusals(counts)
                    counts = {}
                if producer:
                    producer.account(store)
                    producer.renew(store)
        except (OperationalError, OSError, RedisError):
            self.closed.give_back(counts)
        return True


class _GateAMQP(AMQP):
    """Catches the gate's refusal right above the sender, where kombu's connection is still whole."""

    @property
    def producer_pool(self) -> Any:
        pool = super().producer_pool
        pool.Producer = DirectProducer
        return pool

    @cached_property
    def send_task_message(self) -> Any:
        send = self._create_task_sender()

        def send_through_gate(producer: Any, name: str, message: Any, **options: Any) -> Any:
            body = message.body
            if isinstance(body, tuple) and len(body) == 3:
                message.properties["sluicegate_links"] = links_of_embed(body[2])
            queue = options.get("queue")
            if "declare" not in options and isinstance(queue, Queue) and _is_declared(queue, producer):
                options["declare"] = ()
            try:
                return send(producer, name, message, **options)
            except AdmissionRefused as refusal:
                keep_refusal(refusal)
            except Collected:
                batch = current_batch()
                if batch is not None:
                    batch.announce.append(lambda: _say_sent(name, message, options))
            return None

        return send_through_gate

    @send_task_message.setter  # type: ignore[no-redef]
    def send_task_message(self, value: Any) -> Any:
        return value


def _is_declared(queue: Queue, producer: Any) -> bool:
    """kombu looks the same up for each message, and copies the queue three times to do so."""
    connection = producer.connection
    return bool(connection) and queue.can_cache_declaration and hash(queue) in connection.declared_entities


def _say_sent(name: str, message: Any, options: dict[str, Any]) -> None:
    """What Celery's sender says once a message is out; for a batch, only when all of it was accepted."""
    queue = options.get("queue")
    routing_key = getattr(queue, "name", queue) or options.get("routing_key")
    signals.after_task_publish.send(
        sender=name,
        body=message.body,
        headers=message.headers,
        exchange=options.get("exchange") or "",
        routing_key=routing_key,
    )


def _hook_groups() -> None:
    """Groups, and so the headers of chords, publish one by one; make each one batch."""
    inner = canvas.group._apply_tasks
    if getattr(inner, "sluicegate", False):
        return

    @functools.wraps(inner)
    def apply_tasks(self: Any, tasks: Any, producer: Any = None, app: Any = None, *a: Any, **kw: Any) -> Any:
        if not registry.is_hooked(maybe_evaluate(app or self.app)):
            return inner(self, tasks, producer, app, *a, **kw)
        with one_batch():
            return iter(list(inner(self, tasks, producer, app, *a, **kw)))

    apply_tasks.sluicegate = True  # type: ignore[attr-defined]
    canvas.group._apply_tasks = apply_tasks


# Workers.


@signals.celeryd_init.connect
def _prepare_worker(sender: Any = None, instance: Any = None, **_: Any) -> None:
    app = getattr(instance, "app", None)
    if app is None or not registry.is_hooked(app):
        return
    # A result that cannot be stored for a moment must not fail a job that is done.
    app.conf.result_backend_always_retry = True
    keep_logs_quiet()
    app.finalize()
    for task in app.tasks.values():
        task.acks_late = True
        task.reject_on_worker_lost = True
        task.acks_on_failure = True
        task.acks_on_timeout = True
        task.Request = _gate_request_for(task.Request)
        task.Strategy = _gate_strategy_for(task.Strategy)
        task.run = _unless_called_off(task.run)


def _unless_called_off(run: Any) -> Any:
    """A task's code, which a job does not enter that was cancelled while its worker had it in reserve.

    Only what was in reserve for a while is asked about: it costs a round trip.
    """

    @functools.wraps(run)
    def run_if_wanted(*args: Any, **kwargs: Any) -> Any:
        if delivery.reserved_s() > ASK_AFTER_S:
            delivery.check()
        return run(*args, **kwargs)

    return run_if_wanted


@signals.worker_init.connect
def _hold_little(sender: Any = None, **_: Any) -> None:
    """A claimed job cannot be overtaken any more, so a worker holds no more than it can run.

    The command line hands Celery's default multiplier on as if it were asked for, so it is set here, after
    the command line and before the consumer is made.
    """
    app = getattr(sender, "app", None)
    if app is None or not registry.is_hooked(app):
        return
    if sender.prefetch_multiplier == CELERYS_PREFETCH_MULTIPLIER:
        sender.prefetch_multiplier = 1
    if "solo" in str(sender.pool_cls):
        sender.concurrency = 1


@functools.cache
def _gate_request_for(request: Any) -> Any:
    cls = symbol_by_name(request)
    if issubclass(cls, GateRequest):
        return cls
    return GateRequest if cls is Request else type(f"Gate{cls.__name__}", (GateRequest, cls), {})


@functools.cache
def _gate_strategy_for(strategy: Any) -> Any:
    """Celery's way from a message to a request, which holds a message that is none."""
    inner = symbol_by_name(strategy)
    if getattr(inner, "sluicegate", False):
        return inner

    @functools.wraps(inner)
    def make_handler(*args: Any, **kwargs: Any) -> Any:
        handle = inner(*args, **kwargs)

        def handle_or_hold(message: Any, *more: Any, **named: Any) -> Any:
            try:
                return handle(message, *more, **named)
            except UNFIT as exc:
                found = registry.held_by_tag(message.delivery_tag)
                if found is None or found[0].started_at_ms is not None or found[0].outcome is not None:
                    raise
                hold_unfit(found[0], exc)
                message.reject()

        return handle_or_hold

    make_handler.sluicegate = True  # type: ignore[attr-defined]
    return make_handler


@signals.celeryd_after_setup.connect
def _introduce_worker(sender: Any = None, instance: Any = None, **_: Any) -> None:
    about = registry.about
    about.name = str(sender)
    about.pool = getattr(instance.pool_cls, "__module__", str(instance.pool_cls)).rsplit(".", 1)[-1]
    about.slots = 1 if about.pool == "solo" else int(instance.concurrency or 1)
    about.queues = tuple(instance.app.amqp.queues.consume_from)


@signals.worker_ready.connect
def _start_beating(sender: Any = None, **_: Any) -> None:
    app = getattr(sender, "app", None)
    if app is not None and registry.is_hooked(app):
        channel = sender.task_consumer.channel
        if hasattr(channel, "holdings"):
            channel.holdings.start()


@signals.worker_process_shutdown.connect
def _give_credits_back(sender: Any = None, **_: Any) -> None:
    registry.end_producers()


@signals.worker_shutdown.connect
def _give_back(sender: Any = None, **_: Any) -> None:
    # None and False: nobody asked. Zero is an exit code, and a request.
    words = (state.should_stop, state.should_terminate)
    asked = any(word is not None and word is not False for word in words)
    for holdings in registry.own_holdings():
        holdings.close(was_asked_to_stop=asked)

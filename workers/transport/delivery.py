"""What may a running task ask of the gate?

from sluicegate import delivery

@shared_task
def write(account, amount):
    delivery.check()                      # stops here if it was cancelled or its deadline has passed
    ...
    delivery.before_effect(account)       # the same, and stops where a newer holder has written
    charge(account, amount, timeout=delivery.remaining_s())
    with delivery.downstream() as call:   # its own latency, not the task's, moves its limit
        answer = requests.post(URL, timeout=5)
        if answer.status_code in (429, 503):
            call.dropped()
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from celery import current_task
from celery.exceptions import Ignore

from ..exceptions import DownstreamDropped, StoreUnavailable
from ..store import Store

logger = logging.getLogger("sluicegate.transport")


class Stopped(Ignore):
    """The task's work is not wanted any more; Celery records nothing for it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Identity of the delivery that runs: the operation and the epoch that fences it."""

    id: str
    epoch: int


def current() -> Delivery | None:
    """The running delivery; None outside a task that came through the gate."""
    epoch = _fact("sluicegate_epoch")
    if epoch is None:
        return None
    return Delivery(current_task.request.id, int(epoch))


def _fact(name: str) -> Any:
    request = getattr(current_task, "request", None)
    headers = getattr(request, "headers", None) or {}
    return headers.get(name) or getattr(request, name, None)


def reserved_s() -> float:
    """How long the worker held this delivery before now, by this machine's clock; 0 outside the gate."""
    taken_at = _fact("sluicegate_taken_at")
    return 0.0 if taken_at is None else max(0.0, time.time() - float(taken_at))


def _store() -> tuple[Delivery, Store] | None:
    own = current()
    if own is None:
        return None
    with current_task.app.pool.acquire(block=True) as connection:
        store: Store = connection.default_channel.gate_store
    if not store.clock.is_set:
        store.promote([])  # any script's reply tells Redis's time
    return own, store


def may_write(resource: str) -> bool:
    """Whether this delivery may write to a resource; a delivery that lost its lease may not.

    True outside the gate. Ask right before the effect, and let the sink keep the epoch where it can.

    Raises:
        StoreUnavailable: Redis cannot be asked.
    """
    found = _store()
    return True if found is None else found[1].fence(resource, found[0].epoch)


def remaining_s() -> float | None:
    """Seconds until the deadline by Redis's clock, negative after it; None without one, or outside the gate.

    Raises:
        StoreUnavailable: Redis cannot be asked.
    """
    found = _store()
    operation = None if found is None else found[1].read_operation(found[0].id)
    if found is None or operation is None or operation.deadline_at_ms is None:
        return None
    return (operation.deadline_at_ms - found[1].clock.now_ms()) / 1000


def check() -> None:
    """Stops the task if it was asked to stop, or if its deadline has passed.

    The operation then ends as cancelled or expired.

    Raises:
        Stopped: the work is not wanted any more.
        StoreUnavailable: Redis cannot be asked.
    """
    found = _store()
    if found is not None:
        _check(*found)


def before_effect(resource: str) -> None:
    """The last question before an effect that cannot be taken back: is it still wanted, and still ours to do?

    Stops where ``check`` would, and where a newer delivery has written to the resource.

    Raises:
        Stopped: the effect is not wanted any more, or not from this delivery.
        StoreUnavailable: Redis cannot be asked.
    """
    found = _store()
    if found is None:
        return
    _check(*found)
    own, store = found
    if not store.fence(resource, own.epoch):
        raise Stopped(f"a newer delivery has written to {resource}")


def _check(own: Delivery, store: Store) -> None:
    operation = store.read_operation(own.id)
    if operation is None or operation.epoch != own.epoch:
        raise Stopped("this delivery has lost its lease")
    if operation.cancel_requested_by:
        raise Stopped(f"cancelled by {operation.cancel_requested_by}")
    deadline = operation.deadline_at_ms
    if deadline is not None and store.clock.now_ms() >= deadline:
        raise Stopped("its deadline has passed")


@dataclass(slots=True)
class Call:
    """One call of the job's downstream, as the task tells it."""

    outcome: str = "success"
    took_ms: int | None = None

    def dropped(self) -> None:
        """The downstream turned the call away or did not answer: too many call it at once."""
        self.outcome = "dropped"

    def ignore(self) -> None:
        """The call says nothing of the downstream's load (a fault of the request itself, a cached answer)."""
        self.outcome = "ignore"

    def took(self, ms: float) -> None:
        """The latency as the task measured it, where the block does more than call."""
        self.took_ms = max(0, round(ms))


@contextmanager
def downstream() -> Iterator[Call]:
    """Times a call of the running job's downstream and reports it; the job's run time then counts no more.

    ``DownstreamDropped`` and ``TimeoutError`` that leave the block are a drop, other exceptions say nothing.
    Outside the gate, or without a downstream, the block simply runs. A report that cannot be made is left.
    """
    call, began = Call(), time.monotonic()
    try:
        yield call
    except (DownstreamDropped, TimeoutError):
        call.dropped()
        raise
    except BaseException:
        call.ignore()
        raise
    finally:
        took_ms = round((time.monotonic() - began) * 1000) if call.took_ms is None else call.took_ms
        try:
            found = _store()
            if found is not None:
                found[1].report_call(found[0].id, found[0].epoch, call.outcome, took_ms=took_ms)
        except StoreUnavailable as exc:
            logger.warning("a call of the downstream was not reported: %s", exc.reason)

"""What may a running task ask of the gate?

from sluicegate import delivery

@shared_task
def write(account, amount):
    delivery.check()                      # stops here if it was cancelled or its time has passed
    if delivery.may_write(account):       # False once a newer holder has written
        ...
"""

from __future__ import annotations

from dataclasses import dataclass

from celery import current_task
from celery.exceptions import Ignore

from ..store import Store


class Stopped(Ignore):
    """The task's work is not wanted any more; Celery records nothing for it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Identity of the delivery that runs: the operation and the epoch that fences it."""

    id: str
    epoch: int


def current() -> Delivery | None:
    """The running delivery; None outside a task that came through the gate."""
    request = getattr(current_task, "request", None)
    headers = getattr(request, "headers", None) or {}
    epoch = headers.get("sluicegate_epoch") or getattr(request, "sluicegate_epoch", None)
    if request is None or epoch is None:
        return None
    return Delivery(request.id, int(epoch))


def _store() -> tuple[Delivery, Store] | None:
    own = current()
    if own is None:
        return None
    with current_task.app.pool.acquire(block=True) as connection:
        return own, connection.default_channel.gate_store


def may_write(resource: str) -> bool:
    """Whether this delivery may write to a resource; a delivery that lost its lease may not.

    True outside the gate. Ask right before the effect, and let the sink keep the epoch where it can.

    Raises:
        StoreUnavailable: Redis cannot be asked.
    """
    found = _store()
    return True if found is None else found[1].fence(resource, found[0].epoch)


def check() -> None:
    """Stops the task if it was asked to stop, or if its deadline has passed.

    Raises:
        Stopped: the work is not wanted any more.
        StoreUnavailable: Redis cannot be asked.
    """
    found = _store()
    if found is None:
        return
    own, store = found
    operation = store.read_operation(own.id)
    if operation is None or operation.epoch != own.epoch:
        raise Stopped("this delivery has lost its lease")
    if operation.cancel_requested_by:
        raise Stopped(f"cancelled by {operation.cancel_requested_by}")
    deadline = operation.deadline_at_ms
    if deadline is not None and store.clock.now_ms() >= deadline:
        raise Stopped("its deadline has passed")

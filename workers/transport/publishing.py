"""How do several publishes become one offer, and a refusal an exception at the right height?

A refusal raised inside kombu would tear its connection down. It is raised in ``Channel._put``, caught
right above Celery's sender (hook.py), kept here for this thread, and raised again above the producer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from celery.exceptions import TaskRevokedError
from celery.states import REVOKED

from ..admission.messages import GATE_HEADER
from ..exceptions import AdmissionRefused
from ..limits.producer import Producer
from ..states import REMEDIES
from ..store import Offer, Verdict
from ..store.offers import BOUNDS, say_figures


class Collected(Exception):
    """A message was put aside for its batch; the sender must not say "sent" yet."""


@dataclass(slots=True)
class Batch:
    """Offers of one canvas, to be admitted whole or not at all."""

    admit: Callable[[list[Offer]], list[Verdict]] | None = None
    offers: list[Offer] = field(default_factory=list)
    announce: list[Callable[[], None]] = field(default_factory=list)

    def add(self, offer: Offer, admit: Callable[[list[Offer]], list[Verdict]]) -> None:
        self.admit = admit
        self.offers.append(offer)

    def flush(self) -> None:
        """Offers everything in one step, then lets the senders say so.

        Raises:
            AdmissionRefused: nothing of the batch was accepted.
        """
        offers, self.offers = self.offers, []
        if not offers or self.admit is None:
            return
        for verdict in self.admit(offers):
            raise_refusal(verdict)
        for say in self.announce:
            say()


class _Thread(threading.local):
    batch: Batch | None = None
    refusal: AdmissionRefused | None = None
    verdict: Verdict | None = None
    mints: bool = False
    producer: Producer | None = None


_thread = _Thread()


def current_batch() -> Batch | None:
    return _thread.batch


@contextmanager
def one_batch() -> Iterator[None]:
    """Everything published inside is one batch; an outer batch takes an inner one in."""
    if _thread.batch is not None:
        yield
        return
    batch = _thread.batch = Batch()
    try:
        yield
    finally:
        _thread.batch = None
    batch.flush()


def mints_ids() -> bool:
    """Whether what this thread publishes now gets its id in the same call, so that nobody can know it yet."""
    return _thread.mints


def set_minting(mints: bool) -> bool:
    """Says it for the publish that follows; gives what was said before."""
    before, _thread.mints = _thread.mints, mints
    return before


def keep_refusal(refusal: AdmissionRefused) -> None:
    _thread.refusal = refusal


def name_producer(producer: Producer) -> None:
    """The channel tells the layers above it as which producer it asked the gate."""
    _thread.producer = producer


def named_producer() -> Producer | None:
    return _thread.producer


def take_refusal() -> AdmissionRefused | None:
    refusal, _thread.refusal = _thread.refusal, None
    return refusal


def keep_verdict(verdict: Verdict) -> None:
    """Keeps what the gate said to the newest publish of this thread."""
    _thread.verdict = verdict


def take_verdict() -> Verdict | None:
    verdict, _thread.verdict = _thread.verdict, None
    return verdict


def tell(result: Any, verdict: Verdict) -> None:
    """Puts the gate's answer on the ``AsyncResult`` of a publish, as ``verdict``.

    What the queue's policy dropped without an error is nowhere to run: its result is there at once, as that
    of a revoked task, instead of a ``get()`` that waits for ever.
    """
    result.verdict = verdict
    if verdict.status == "shed":
        said = TaskRevokedError(f"shed: {verdict.queue} was full ({verdict.reason})")
        result._cache = {"status": REVOKED, "result": said, "traceback": None, "task_id": verdict.id}


def raise_refusal(verdict: Verdict) -> None:
    """Raises the refusal that a verdict holds, if it holds one."""
    if not verdict.accepted:
        detail = REMEDIES.get(verdict.reason or "") or say_figures(verdict)
        refusal = AdmissionRefused(verdict.queue, verdict.reason or "", verdict.retry_after_s or 0.0, detail)
        refusal.block_s = verdict.block_s
        if verdict.ticket is not None:
            refusal.ticket, refusal.position = verdict.ticket.id, verdict.ticket.position
        raise refusal


class ClosedQueues:
    """Which queues are known to be closed to whom for the next moment.

    A producer that was just refused refuses by itself for a tenth of a second (never beyond a second,
    so that it sees a mode change within the two seconds promised), and reports these refusals.
    """

    HOLD_S = 0.1
    #: Reasons that say something about the next job too.
    REASONS = BOUNDS | {"mode", "suspended"}

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], tuple[float, AdmissionRefused]] = {}
        self._counts: dict[tuple[str, str, str], int] = {}
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        return not self._until

    def close(self, asked: str, tenant: str, refusal: AdmissionRefused) -> None:
        if refusal.reason in self.REASONS:
            hold = min(self.HOLD_S, refusal.retry_after)
            with self._lock:
                if len(self._until) > 1000:
                    self._until.clear()
                self._until[(asked, tenant)] = (time.monotonic() + hold, refusal)

    def check(self, queue: str, tenant: str) -> AdmissionRefused | None:
        """The refusal that stands for this queue and tenant now; counts it as made."""
        found = self._until.get((queue, tenant))
        if found is None:
            return None
        until, known = found
        if time.monotonic() >= until:
            with self._lock:
                self._until.pop((queue, tenant), None)
            return None
        with self._lock:
            key = (known.queue, tenant, known.reason)
            self._counts[key] = self._counts.get(key, 0) + 1
        return AdmissionRefused(known.queue, known.reason, known.retry_after)

    def note(self, queue: str, tenant: str, reason: str) -> None:
        """Counts a refusal that was made here for another reason than a queue known to be closed."""
        with self._lock:
            key = (queue, tenant, reason)
            self._counts[key] = self._counts.get(key, 0) + 1

    def take_counts(self) -> dict[tuple[str, str, str], int]:
        with self._lock:
            counts, self._counts = self._counts, {}
        return counts

    def give_back(self, counts: dict[tuple[str, str, str], int]) -> None:
        with self._lock:
            for key, number in counts.items():
                self._counts[key] = self._counts.get(key, 0) + number


def name_downstream(options: dict[str, Any]) -> None:
    """A task's own ``downstream`` goes along in its header, unless the caller named one there."""
    named = getattr(options.get("task_type"), "downstream", None)
    if named is None:
        return
    headers = dict(options.get("headers") or {})
    said = headers.get(GATE_HEADER)
    headers[GATE_HEADER] = {"downstream": named, **(said if isinstance(said, Mapping) else {})}
    options["headers"] = headers


def offered_facts(options: dict[str, Any]) -> tuple[str, bool]:
    """Tenant of a publish, and whether it may be refused locally (a new offer, no retry and no link)."""
    headers = options.get("headers") or {}
    fresh = not options.get("task_id") and not options.get("retries")
    return headers.get("tenant") or "default", fresh

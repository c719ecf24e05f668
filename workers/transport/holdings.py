"""Which jobs does this process hold, what came of each, and who keeps their leases alive?"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ..exceptions import StoreUnavailable
from ..privacy.classes import DEFAULT_CLASS, SECRET
from ..privacy.errors import seal_error
from ..privacy.redact import redact_error, scrub_text
from ..states import DEFAULT_QUEUE
from ..store import Claimed, Settlement, Store

logger = logging.getLogger("sluicegate.transport")

#: Longest time between heartbeats in s; under leases shorter than three of it they come faster.
BEAT_S = 1.0
BEATS_PER_LEASE = 3

#: Every so many heartbeats a worker also takes back leases that ran out, at most so many at a time: where
#: no monitor runs, a dead worker's jobs must come back all the same.
BEATS_PER_REAP, MOST_PER_REAP = 3, 20

#: Every so many heartbeats it also removes what has outlived its use, in so many steps of so many each: with
#: the monitor gone, what the last hour's jobs left must go too. The steps hold up no lease for long.
BEATS_PER_SWEEP, SWEEPS_AT_ONCE, MOST_PER_SWEEP = 20, 10, 500

#: Longest texts that are stored with a failure, in characters.
MAX_MESSAGE, MAX_TRACEBACK, MAX_RESULT = 2_000, 16_000, 1_000


@dataclass(slots=True, eq=False)
class Held:
    """One delivery under lease. The request that runs it notes here what came of it."""

    id: str
    epoch: int
    queue: str
    task: str
    deliveries: int
    max_deliveries: int
    accepted_at_ms: int
    tag: str
    payload_class: str = DEFAULT_CLASS
    lease_ms: int = 10_000
    taken: bool = False
    run: weakref.ref[Any] | None = None  # the pool's own record of it
    started_at_ms: int | None = None
    started_monotonic: float | None = None
    outcome: str | None = None
    run_ms: int | None = None
    error: dict[str, str] | None = None
    result_repr: str | None = None
    quarantine_reason: str | None = None
    delay_ms: int | None = None
    downstream: str | None = None
    cancel_requested: bool = False

    def word_to_give_back(self) -> str:
        """``released`` where it has not begun and counts as no delivery, ``requeued`` where it runs.

        In a pool of threads it is kept from beginning. What is written to a prefork child begins there before
        its worker hears of it, and goes on when the pool has forgotten it: that is ``lost``, so that a second
        start can be told from a first.
        """
        if self.started_at_ms is not None:
            return "requeued"
        run = self.run and self.run()
        if isinstance(run, Future):
            return "released" if run.cancel() else "requeued"
        return "lost" if getattr(run, "_write_to", None) is not None else "released"

    def settlement(self, outcome: str) -> Settlement:
        run_ms = self.run_ms
        if run_ms is None and self.started_monotonic is not None:
            run_ms = max(0, int((time.monotonic() - self.started_monotonic) * 1000))
        return Settlement(
            id=self.id,
            epoch=self.epoch,
            outcome=outcome,
            started_at_ms=self.started_at_ms,
            run_ms=run_ms,
            error=self.error,
            result_repr=self.result_repr,
            quarantine_reason=self.quarantine_reason,
            delay_ms=self.delay_ms,
            downstream=self.downstream,
        )

    @property
    def is_last_delivery(self) -> bool:
        return self.deliveries >= self.max_deliveries


def note_error(held: Held, kind: str, message: str, traceback: str = "") -> None:
    """Keeps what a person needs of a failure, capped and without values that a name gives away.

    Of a secret payload's failure no word that could be its own is kept; a personal one's are encrypted.
    """
    error = {
        "type": kind[:200],
        "message": scrub_text(message[:MAX_MESSAGE]),
        "traceback": scrub_text(cut_middle(traceback)),
    }
    if held.payload_class == SECRET:
        error = redact_error(error, SECRET) or error
    held.error = seal_error(error, held.payload_class, held.id)


def cut_middle(traceback: str) -> str:
    """Where it was called and where it broke: neither a deep stack nor a long message hides the other."""
    if len(traceback) <= MAX_TRACEBACK:
        return traceback
    half = MAX_TRACEBACK // 2
    left_out = f"\n... {len(traceback) - 2 * half} characters left out ...\n"
    return traceback[:half] + left_out + traceback[-half:]


@dataclass(slots=True)
class About:
    """What a worker says of itself with each heartbeat."""

    name: str = field(default_factory=lambda: f"{os.getpid()}@{socket.gethostname()}")
    pool: str | None = None
    slots: int = 1
    queues: tuple[str, ...] = ()
    started_at_ms: int = 0


class Holdings:
    """The jobs that one process holds of one gate.

    They belong to the process, not to a channel: when the connection is lost and made anew, what runs
    goes on under its lease and settles by its epoch. A thread with a connection of its own renews
    the leases, so that a blocked event loop or a solo pool's long task keeps its job.
    """

    def __init__(self, open_store: Callable[[], Store], about: About | None = None) -> None:
        self.about = about or About()
        self._open_store = open_store
        self._store: Store | None = None
        self._held: dict[str, Held] = {}
        self._ends: list[Settlement] = []
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._pid = os.getpid()
        self._beats = 0

    @property
    def store(self) -> Store:
        if self._store is None or self._pid != os.getpid():
            self._pid = os.getpid()
            self._store = self._open_store()
        return self._store

    def take(self, job: Claimed) -> Held:
        """Notes a claimed job; its delivery tag names this delivery and no other."""
        held = Held(
            id=job.id,
            epoch=job.epoch,
            queue=job.queue,
            task=job.task,
            deliveries=job.deliveries,
            max_deliveries=job.max_deliveries,
            accepted_at_ms=job.accepted_at_ms,
            tag=f"{job.epoch}/{job.id}",
            payload_class=job.payload_class,
            lease_ms=job.lease_ms,
        )
        with self._lock:
            self._held[held.tag] = held
        self._keep_alive()
        if job.lease_ms < BEATS_PER_LEASE * BEAT_S * 1000:
            self._wake.set()  # the next heartbeat might come too late for so short a lease
        return held

    def find(self, tag: str) -> Held | None:
        return self._held.get(tag)

    def started(self, held: Held, monotonic_s: float) -> None:
        """The job's own code begins to run."""
        held.started_monotonic = monotonic_s
        held.started_at_ms = self.store.clock.at_ms(monotonic_s)

    def settle(self, held: Held, outcome: str) -> None:
        """Ends a delivery and tells the gate; the heartbeat tells it again while Redis is away."""
        if self.end(held, outcome):
            self.try_to_tell_ends()

    def end(self, held: Held, outcome: str) -> bool:
        """Ends a delivery here; the gate is told with the next claim or heartbeat. False if it had ended."""
        with self._lock:
            if self._held.pop(held.tag, None) is None:
                return False
            self._ends.append(held.settlement(held.outcome or outcome))
        return True

    def take_ends(self) -> list[Settlement]:
        """What has ended and the gate has not been told. Who takes it tells it, or keeps it again."""
        with self._lock:
            ends, self._ends = self._ends, []
        return ends

    def keep_ends(self, ends: list[Settlement]) -> None:
        """Ends of which it is not known whether the gate has heard: it may be told twice."""
        with self._lock:
            self._ends = ends + self._ends

    def tell_ends(self) -> None:
        """Tells the gate what has ended here.

        Raises:
            StoreUnavailable: it does not hear; what has ended is kept.
        """
        ends = self.take_ends()
        if not ends:
            return
        try:
            self.note_words(ends, self.store.settle(ends))
        except StoreUnavailable:
            self.keep_ends(ends)
            raise

    def try_to_tell_ends(self) -> None:
        """As ``tell_ends``; what is not heard now goes with the next heartbeat."""
        try:
            self.tell_ends()
        except StoreUnavailable as exc:
            number = len(self._ends)
            logger.warning(
                "the ends of %d jobs cannot be recorded yet (%s); they will be", number, exc.reason
            )

    @staticmethod
    def note_words(ends: list[Settlement], words: list[str]) -> None:
        for end, word in zip(ends, words, strict=True):
            if word in ("stale", "unknown"):
                logger.warning(
                    "%s ended under epoch %s, its lease had passed on: %s", end.id, end.epoch, word
                )

    def release(self, *, everything: bool = False, was_asked_to_stop: bool = True) -> int:
        """Gives back what has not started, or, at the end of the process, all that is held.

        What ran in a process that ends unasked may be what ends it: that counts as a delivery.
        """
        with self._lock:
            given = [h for h in self._held.values() if everything or h.started_at_ms is None]
        for held in given:
            held.outcome = "released" if was_asked_to_stop or not held.taken else "lost"
            self.settle(held, "released")
        return len(given)

    def beat(self) -> None:
        """One heartbeat: sends what could not be settled, renews leases, says what is running."""
        self.tell_ends()
        with self._lock:
            held = list(self._held.values())
        running = [
            {"id": h.id, "queue": h.queue, "task": h.task, "started_at_ms": h.started_at_ms}
            for h in held[:64]
        ]
        about: dict[str, Any] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "pool": self.about.pool,
            "slots": self.about.slots,
            "queues": list(self.about.queues),
            "started_at_ms": self.about.started_at_ms,
            "held": running,
        }
        leases = [(h.id, h.epoch, h.started_at_ms) for h in held]
        lost, stop = self.store.renew(self.about.name, about, leases)
        if not self.about.started_at_ms:
            self.about.started_at_ms = self.store.clock.now_ms()
        self._beats += 1
        if self._beats % BEATS_PER_REAP == 0:
            self.store.reap(MOST_PER_REAP)
        if self._beats % BEATS_PER_SWEEP == 0:
            self._sweep()
        for h in held:
            if h.id in stop:
                h.cancel_requested = True
            if h.id in lost and h.tag in self._held:
                logger.warning("the lease of %s (epoch %s) passed on; its end will be refused", h.id, h.epoch)

    def _sweep(self) -> None:
        queues = list(dict.fromkeys((*self.about.queues, DEFAULT_QUEUE)))
        for _ in range(SWEEPS_AT_ONCE):
            if self.store.sweep(queues, limit=MOST_PER_SWEEP) < MOST_PER_SWEEP:
                return

    def start(self) -> None:
        """Begins to send heartbeats."""
        self._keep_alive()

    def close(self, *, was_asked_to_stop: bool = True) -> None:
        """Ends the heartbeat, gives back what is held and takes the worker off the list."""
        self._stop.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)
        self._thread = None
        try:
            self.tell_ends()
            self.release(everything=True, was_asked_to_stop=was_asked_to_stop)
            self.store.forget_worker(self.about.name)
        except StoreUnavailable as exc:
            logger.warning("cannot say goodbye to the gate (%s); leases will run out", exc.reason)

    def _keep_alive(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._stop.clear()
                self._thread = threading.Thread(target=self._beat_on, name="sluicegate-leases", daemon=True)
                self._thread.start()

    def _pause_s(self) -> float:
        """Until the next heartbeat: each lease is renewed three times before it would run out."""
        with self._lock:
            shortest_ms = min((held.lease_ms for held in self._held.values()), default=10_000)
        return min(BEAT_S, shortest_ms / 1000 / BEATS_PER_LEASE)

    def _beat_on(self) -> None:
        away = False
        while True:
            self._wake.clear()
            try:
                self.beat()
                away = False
            except StoreUnavailable as exc:
                if not away:
                    logger.warning("no heartbeat reaches the gate: %s", exc)
                away = True
            except Exception:
                logger.exception("a heartbeat failed")
            self._wake.wait(self._pause_s())
            if self._stop.is_set():
                return

"""How are jobs offered at their times, whatever the gate answers?

An open loop: one thread keeps the schedule, some threads send. What comes late (all senders
busy) is offered late, and the scoreboard says by how much.
"""

from __future__ import annotations

import heapq
import queue
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from .arrivals import Arrival
from .doors import Answer, Door, new_offer_id
from .scoreboard import Scoreboard

#: Offers that may wait for a sender; beyond it the schedule waits.
WAITING_OFFERS = 1000


@dataclass(order=True, slots=True)
class Offer:
    due_s: float
    number: int
    arrival: Arrival = field(compare=False)
    offer_id: str = field(compare=False)
    tries: int = field(default=0, compare=False)
    is_invited: bool = field(default=False, compare=False)


class Manner(Protocol):
    """What a producer does when it is not accepted."""

    def return_after(self, answer: Answer, *, tries: int, age_s: float) -> float | None:
        """Seconds until it offers the job again; None: it gives up."""


@dataclass(frozen=True, slots=True)
class Polite:
    """Comes back no earlier than asked, and a little spread; gives up on a job after ``patience_s``."""

    patience_s: float
    source: random.Random
    base_s: float = 0.5
    cap_s: float = 10.0

    def return_after(self, answer: Answer, *, tries: int, age_s: float) -> float | None:
        if answer.retry_after_s is not None:
            wait_s = answer.retry_after_s + self.source.uniform(0, max(0.2, answer.retry_after_s / 4))
        elif answer.kind == "failed" and (answer.reason or "")[:1] == "4":
            return None  # the body or the key is at fault: it would be so again
        else:
            wait_s = self.source.uniform(0, min(self.cap_s, self.base_s * 2.0**tries))
        return wait_s if age_s + wait_s <= self.patience_s else None


@dataclass(frozen=True, slots=True)
class Rude:
    """Takes no advice: offers a job once, or at once again up to ``retries`` times."""

    retries: int = 0

    def return_after(self, answer: Answer, *, tries: int, age_s: float) -> float | None:
        return 0.0 if tries <= self.retries else None


class Flood:
    def __init__(self, door: Door, manner: Manner, *, senders: int) -> None:
        self.scoreboard = Scoreboard()
        self._door = door
        self._manner = manner
        self._sender_count = senders
        self._outbox: queue.Queue[Offer | None] = queue.Queue(WAITING_OFFERS)
        self._returns: list[Offer] = []
        self._wake = threading.Condition()
        self._open = 0
        self._stopping = threading.Event()
        self._started_s = 0.0

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    def stop(self) -> None:
        """May be called from a signal handler: only sets a flag."""
        self._stopping.set()

    def run(self, arrivals: Iterator[Arrival]) -> None:
        """Until every job was accepted or given up, or ``stop`` is called."""
        self._started_s = time.monotonic()
        senders = [threading.Thread(target=self._send_all, daemon=True) for _ in range(self._sender_count)]
        for sender in senders:
            sender.start()
        try:
            self._keep_schedule(arrivals)
        finally:
            self._stopping.set()
            self._drop_waiting()
            for _ in senders:
                self._outbox.put(None)
            for sender in senders:
                sender.join(timeout=15)

    def _keep_schedule(self, arrivals: Iterator[Arrival]) -> None:
        number = 0
        coming = next(arrivals, None)
        while not self._stopping.is_set():
            now_s = self.elapsed_s
            if coming is not None and coming.at_s <= now_s:
                self.scoreboard.note_job(coming.queue)
                with self._wake:
                    self._open += 1
                self._hand_over(Offer(coming.at_s, number, coming, new_offer_id()))
                number += 1
                coming = next(arrivals, None)
                continue
            with self._wake:
                due = (
                    heapq.heappop(self._returns)
                    if self._returns and self._returns[0].due_s <= now_s
                    else None
                )
                if due is None:
                    if coming is None and self._open == 0:
                        return
                    nearest = [self._returns[0].due_s] if self._returns else []
                    nearest += [coming.at_s] if coming is not None else []
                    self._wake.wait(min(0.25, max(0.001, min(nearest, default=1e9) - now_s)))
            if due is not None:
                self._hand_over(due)

    def _hand_over(self, offer: Offer) -> None:
        while not self._stopping.is_set():
            try:
                self._outbox.put(offer, timeout=0.25)
                return
            except queue.Full:
                continue

    def _drop_waiting(self) -> None:
        while True:
            try:
                self._outbox.get_nowait()
            except queue.Empty:
                return

    def _send_all(self) -> None:
        while (offer := self._outbox.get()) is not None:
            self._send(offer)

    def _send(self, offer: Offer) -> None:
        begun_s = time.monotonic()
        answer = self._door.offer(offer.arrival, offer.offer_id)
        ended_s = time.monotonic()
        late_ms = max(0.0, (begun_s - self._started_s - offer.due_s) * 1000)
        name = offer.arrival.queue
        if offer.is_invited:
            self.scoreboard.note_return(name)
        self.scoreboard.note_answer(
            name, answer, (ended_s - begun_s) * 1000, late_ms=late_ms, is_first=offer.tries == 0
        )
        offer.tries += 1
        wait_s = None
        if answer.kind != "accepted":
            age_s = ended_s - self._started_s - offer.arrival.at_s
            wait_s = self._manner.return_after(answer, tries=offer.tries, age_s=age_s)
            if wait_s is None:
                self.scoreboard.note_given_up(name)
        with self._wake:
            if wait_s is None:
                self._open -= 1
            else:
                offer.due_s = ended_s - self._started_s + wait_s
                offer.is_invited = answer.retry_after_s is not None and wait_s >= answer.retry_after_s
                heapq.heappush(self._returns, offer)
            self._wake.notify()

"""What happens when these jobs arrive and so many slots serve them? Events in order, the gate decides."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..store import Claimed, Offer, Settlement, Verdict
from .clock import SteppedStore

#: Seconds between two ticks, as the monitor has it.
TICK_MS = 1_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """One offer, ms after the start, and how long its service takes once it runs alone."""

    at_ms: int
    offer: Offer
    service_ms: int = 100


@dataclass(frozen=True, slots=True)
class Ended:
    """One job that was served: times in ms after the start."""

    offer: Offer
    arrived_ms: int
    started_ms: int
    ended_ms: int

    @property
    def in_time(self) -> bool:
        deadline = self.offer.deadline_ms
        return deadline is None or self.ended_ms - self.arrived_ms <= deadline


#: How long a job takes that starts now: (its arrival, jobs that run now, itself included) -> ms.
Service = Callable[[Arrival, int], int]
#: What a run teaches of its downstream: (its arrival, jobs that ran when it began) -> word, None: by outcome.
Lesson = Callable[[Arrival, int], str | None]


@dataclass(slots=True)
class World:
    """Producers, slots and a clock around one gate. Slots serve all of ``queues``."""

    store: SteppedStore
    slots: int
    queues: tuple[str, ...]
    service: Service = lambda arrival, running: arrival.service_ms
    lesson: Lesson = lambda arrival, running: None
    on_tick: Callable[[SteppedStore], None] = lambda store: None
    ended: list[Ended] = field(default_factory=list)
    refused: list[tuple[int, Offer, Verdict]] = field(default_factory=list)
    running: dict[str, tuple[Claimed, int]] = field(default_factory=dict)
    _known: dict[str, Arrival] = field(default_factory=dict)

    def run(self, arrivals: Iterable[Arrival], *, until_ms: int) -> None:
        """Lets everything happen that happens until then; what runs at the end is left running."""
        begin, order = self.store.now_ms, itertools.count()
        events: list[tuple[int, int, str, Arrival | str]] = []
        for arrival in arrivals:
            heapq.heappush(events, (arrival.at_ms, next(order), "arrive", arrival))
        for at_ms in range(0, until_ms, TICK_MS):
            heapq.heappush(events, (at_ms, next(order), "tick", ""))
        while events and events[0][0] <= until_ms:
            at_ms, _, kind, subject = heapq.heappop(events)
            self.store.now_ms = begin + at_ms
            if isinstance(subject, Arrival):
                verdict = self.store.admit([subject.offer])[0]
                self._known[subject.offer.id] = subject
                if not verdict.accepted or verdict.status == "shed":
                    self.refused.append((at_ms, subject.offer, verdict))
            elif kind == "end":
                self._end(subject, at_ms)
            else:
                beat = {"slots": self.slots, "queues": list(self.queues), "pool": "simulated"}
                leases = [(job.id, job.epoch, begin + since) for job, since in self.running.values()]
                self.store.renew("simulated@here", beat, leases)
                self.on_tick(self.store)
            for op_id, takes_ms in self._start(at_ms):
                heapq.heappush(events, (at_ms + takes_ms, next(order), "end", op_id))

    def _start(self, at_ms: int) -> list[tuple[str, int]]:
        begun = []
        while len(self.running) < self.slots:
            jobs = self.store.claim("simulated@here", self.queues, 1)
            if not jobs:
                break
            self.running[jobs[0].id] = (jobs[0], at_ms)
            arrival = self._known[jobs[0].id]
            begun.append((jobs[0].id, max(1, self.service(arrival, len(self.running)))))
        return begun

    def _end(self, op_id: str, at_ms: int) -> None:
        running = len(self.running)
        job, since = self.running.pop(op_id)
        arrival = self._known[op_id]
        self.store.settle(
            [
                Settlement(
                    job.id,
                    job.epoch,
                    "succeeded",
                    started_at_ms=self.store.now_ms - (at_ms - since),
                    run_ms=at_ms - since,
                    downstream=self.lesson(arrival, running),
                )
            ]
        )
        self.ended.append(Ended(arrival.offer, arrival.at_ms, since, at_ms))

"""May this process attempt one more offer to a queue, as far as it has been told?

A producer holds a small grant of credits a queue. A credit permits an attempt and promises nothing: the gate
decides. The question for more rides on an attempt and the grant on its answer, so credits cost no round trip.
A producer without a grant, or whose grant has run out of time, may attempt: that is how it asks. One whose
grant is used up, or who was told that the queue is closed, refuses by itself until it hears more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..store.offers import Ask, Grant

#: Part of a grant's life after which it is renewed, so that a producer at work never lets one run out.
RENEW_AT: Final = 0.5
#: An answer that has not come after so long does not come: the next attempt asks again.
ANSWER_S: Final = 5.0


@dataclass(slots=True)
class _Held:
    left: int = 0
    used: int = 0  # of the grant, since the gate was told last
    granted: int = 0
    renew_at: float = 0.0
    ends_at: float = 0.0
    asked_at: float | None = None
    told: int = 0  # of `used`, in the question that is on its way
    closed_until: float = 0.0
    reason: str = ""


class Credits:
    """The grants of one process by queue, as its producers name them. Safe to share between threads."""

    def __init__(self, producer: str, epoch: int, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self.producer = producer
        self.epoch = epoch
        self._now_s = now_s
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        #: Queues in which an attempt may have to be refused; empty when all is well, so that asking is free.
        self.tight: set[str] = set()

    def begin(self, queue: str, number: int = 1) -> Ask | None:
        """An attempt of ``number`` offers uses credits; gives the question that it is to carry, if any."""
        now = self._now_s()
        with self._lock:
            held = self._held.get(queue)
            if held is None:
                held = self._held[queue] = _Held()
            if now < held.ends_at:
                taken = min(number, held.left)
                held.left -= taken
                held.used += taken
                if held.left == 0:
                    self.tight.add(queue)
                if held.left * 2 > held.granted and now < held.renew_at:
                    return None
            if held.asked_at is not None and now - held.asked_at < ANSWER_S:
                return None
            held.asked_at = now
            # Told once: what is used from now on belongs to the next question.
            held.told, held.used = held.used, 0
            return Ask(self.producer, self.epoch, held.told)

    def learn(self, queue: str, grant: Grant | None) -> None:
        """The answer to a question; None where the attempt failed or was not answered."""
        now = self._now_s()
        with self._lock:
            held = self._held.get(queue)
            if held is None:
                return  # it was all given back meanwhile; what this answer grants runs out by itself
            asked_at, held.asked_at = held.asked_at or now, None
            if grant is None:
                held.used += held.told
                held.ends_at = 0.0
                self.tight.discard(queue)
                return
            # Attempts that began meanwhile drew on the old grant, which the new one takes the place of.
            held.left = max(0, grant.credits - held.used)
            held.granted = grant.credits
            held.renew_at = asked_at + grant.for_s * RENEW_AT
            held.ends_at = asked_at + grant.for_s
            held.reason = grant.reason
            held.closed_until = now + grant.closed_s if grant.credits == 0 else 0.0
            if held.left == 0:
                self.tight.add(queue)
            else:
                self.tight.discard(queue)

    def why_not(self, queue: str) -> tuple[str, float] | None:
        """Why an attempt must not be made now, and for how many seconds; None where it may."""
        now = self._now_s()
        with self._lock:
            held = self._held.get(queue)
            if held is None or held.left > 0:
                return None
            if now < held.closed_until:
                return held.reason, held.closed_until - now
            asking = held.asked_at is not None and now - held.asked_at < ANSWER_S
            if asking and now < held.ends_at and held.granted > 0:
                return held.reason, 0.05
            self.tight.discard(queue)
            return None

    def ask_without_attempt(self, queue: str) -> Ask | None:
        """The question of a producer that attempts nothing; None where it need not be asked now."""
        now = self._now_s()
        with self._lock:
            held = self._held.get(queue)
            if held is None or now < held.renew_at or held.asked_at is not None:
                return None
            held.asked_at, held.told, held.used = now, held.used, 0
            return Ask(self.producer, self.epoch, held.told)

    def give_back(self) -> dict[str, int]:
        """At the end: what was used of each grant since the gate was told, by queue. No grant is left."""
        with self._lock:
            used = {queue: held.used for queue, held in self._held.items() if held.granted}
            self._held.clear()
            self.tight.clear()
        return used

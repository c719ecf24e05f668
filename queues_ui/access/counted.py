"""What does this web process know as a producer, and what stands at its door at this moment?

It learns how many producers there are, and so its part of the limits that each counts by itself. Credits do
not hold the door back: a repeated submit must be answered by the gate, however full the queue is.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from workers.exceptions import StoreUnavailable
from workers.limits.producer import Producer

from ..queries.engine import open_gate

log = logging.getLogger(__name__)

TELL_S: Final = 1.0


class Teller:
    """Tells the gate once a second what stands at the door, while anything does."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self._gauges: list[Callable[[], int]] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, gauge: Callable[[], int]) -> None:
        self._gauges.append(gauge)

    def wake(self) -> None:
        """Something waits: whoever sees it first starts the one thread, which ends when all is told."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._tell, name="door-teller", daemon=True)
                    self._thread.start()

    def _tell(self) -> None:
        quiet = 0
        try:
            while quiet < 2:
                door = sum(gauge() for gauge in self._gauges)
                quiet = 0 if door or self.producer.has_news else quiet + 1
                try:
                    store = open_gate()
                    self.producer.account(store, door=door)
                    self.producer.renew(store)
                except StoreUnavailable as fault:
                    log.debug("the gate was not told what stands at the door: %s", fault)
                time.sleep(TELL_S)
        finally:
            self._thread = None  # however it ended, the next that waits is told of again


@lru_cache(maxsize=1)
def teller() -> Teller:
    producer = Producer()
    atexit.register(_end, producer)
    return Teller(producer)


def _end(producer: Producer) -> None:
    try:
        producer.end(open_gate())
    except StoreUnavailable:
        pass  # they run out by themselves

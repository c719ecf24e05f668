"""Do jobs from stock producers come through the gate?"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from ..admission.inlet import InletReport, drain_inlet
from ..store import Store

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 0.5
LIMIT = 100
REFUSED_PAUSE_S = 5.0  # each try is an offer: a full queue is not to be asked twice a second
STOCK_QUEUE = "celery"  # Celery's default; the gate maps it to the default queue


class Inlet:
    def __init__(self, store: Store, queues: Callable[[], Sequence[str]]) -> None:
        """`queues` names those with something on their lists, as the last snapshot counted it."""
        self._store = store
        self._queues = queues
        self._not_before: dict[str, float] = {}

    def tick(self) -> bool:
        more, queues = False, self._queues()
        for queue in dict.fromkeys((*queues, STOCK_QUEUE)) if queues else ():
            if time.monotonic() < self._not_before.get(queue, 0.0):
                continue
            report: InletReport = drain_inlet(self._store, [queue], limit=LIMIT)
            if report.left:
                self._not_before[queue] = time.monotonic() + REFUSED_PAUSE_S
            more = more or report.admitted + report.held >= LIMIT
        return more

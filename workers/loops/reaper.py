"""Do jobs whose worker died come back, do due jobs move up, and is what outlived its use removed?"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ..store import Store

log = logging.getLogger("sluicegate.monitor")

REAP_S = 1.0
REAP_LIMIT = 100
PROMOTE_S = 0.5
SWEEP_S = 5.0
SWEEP_LIMIT = 500
Queues = Callable[[], Sequence[str]]


class Reaper:
    def __init__(self, store: Store) -> None:
        self._store = store

    def tick(self) -> bool:
        taken = self._store.reap(REAP_LIMIT)
        for row in taken:
            log.warning(
                "lease of %s (%s, %s) ran out on %s after delivery %s: %s",
                row["id"],
                row["task"],
                row["queue"],
                row["worker"],
                row["deliveries"],
                row["state"],
            )
        return len(taken) == REAP_LIMIT


class Promoter:
    def __init__(self, store: Store, queues: Queues) -> None:
        self._store = store
        self._queues = queues

    def tick(self) -> bool:
        queues = self._queues()
        return bool(queues) and self._store.promote(queues) >= 100


class Sweeper:
    def __init__(self, store: Store, queues: Queues) -> None:
        self._store = store
        self._queues = queues

    def tick(self) -> bool:
        queues = self._queues()
        return bool(queues) and self._store.sweep(queues, limit=SWEEP_LIMIT) >= SWEEP_LIMIT

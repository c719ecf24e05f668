"""Does the admit script know how fast each queue is served?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..forecast.load import read_load
from ..forecast.model import queue_model
from ..metrics.history import History
from ..store import Store
from ..store.bins import bin_value_ms
from .frame.dispatch import rules_of
from .frame.workers import live_slots

INTERVAL_S = 1.0
REPEAT_TICKS = 10  # unchanged figures are written again, for a Redis that lost them


class Modeler:
    def __init__(self, store: Store, history: Callable[[], History]) -> None:
        self._store = store
        self._history = history
        self._published: dict[str, dict[str, float | None]] = {}
        self._crews: Any = None
        self._ticks = 0
        self._seen_at_ms = 0

    def tick(self) -> bool:
        history = self._history()
        snapshot = history.latest
        if snapshot is None or int(snapshot["now_ms"]) == self._seen_at_ms:
            return False
        self._seen_at_ms = int(snapshot["now_ms"])
        self._ticks += 1
        if self._ticks % REPEAT_TICKS == 0:
            self._published.clear()
            self._crews = None
        # The claim script keeps slots free for a class; it must know how many serve which queues.
        crews = snapshot["crews"]
        if crews and crews != self._crews:
            self._store.write_crews(crews)
            self._crews = crews
        for queue, figures in model_all(history, snapshot).items():
            if self._published.get(queue) != figures:
                self._store.publish_model(queue, figures)
                self._published[queue] = figures
        return False


def model_all(history: History, snapshot: Any) -> dict[str, dict[str, float | None]]:
    loads = [
        x
        for name in snapshot["queues"]
        if (x := read_load(history, name, bin_value=bin_value_ms)) is not None
    ]
    rules = rules_of(snapshot)
    slots = live_slots(snapshot)
    return {
        load.name: queue_model(
            load,
            loads,
            rules,
            total_slots=slots,
            before=snapshot["queues"][load.name].get("model"),
        )
        for load in loads
    }

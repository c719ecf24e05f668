"""What did the queues look like before? Samples at 1 s for 15 min, 10 s for 6 h, 60 s for 7 d."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import Error, transaction

from ..metrics.coarsen import coarsen, make_sample
from ..models import Sample
from .database_health import DatabaseHealth

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 2.0
WAITING_MAX = 120  # samples kept for a database that is slow or away; older ones become a gap
SETTLE_MS = 5_000  # a coarse sample is made once its last fine one must have been written
TRIM_TICKS = 15


@dataclass(frozen=True, slots=True)
class Step:
    step_s: int
    kept_s: int
    made_of_s: int | None  # the finer step


STEPS = (Step(1, 15 * 60, None), Step(10, 6 * 3600, 1), Step(60, 7 * 86_400, 10))


class Historian:
    """The sampler hands samples over and goes on; whatever the database does happens here."""

    def __init__(self, health: DatabaseHealth | None = None) -> None:
        self._health = health or DatabaseHealth()
        self._waiting: deque[tuple[int, dict[str, Any]]] = deque(maxlen=WAITING_MAX)
        self._made_until: dict[int, int] = {}
        self._ticks = 0

    def hear(self, frame: Mapping[str, Any], snapshot: Mapping[str, Any]) -> None:
        """Called by the sampler: cheap, and never waits."""
        self._waiting.append((int(frame["at_ms"]), make_sample(frame)))

    def tick(self) -> bool:
        taken = list(self._waiting)
        if not taken:
            return False
        rows = [Sample(step_s=1, at_ms=at_ms, data=data) for at_ms, data in taken]
        try:
            with self._health.attempt("history"), transaction.atomic():
                Sample.objects.bulk_create(rows, ignore_conflicts=True)
        except Error as exc:
            log.warning("%d samples wait for the database: %s", len(taken), exc)
            return False
        while self._waiting and self._waiting[0][0] <= taken[-1][0]:
            self._waiting.popleft()
        now_ms = taken[-1][0]
        for step in STEPS:
            if step.made_of_s is not None:
                self._coarsen(step, now_ms)
        self._ticks += 1
        if self._ticks % TRIM_TICKS == 1:
            trim(now_ms)
        return False

    def _coarsen(self, step: Step, now_ms: int) -> None:
        """Makes the coarse samples that are due, from what is in the database: a restart loses none."""
        size_ms = 1000 * step.step_s
        last = (now_ms - SETTLE_MS) // size_ms * size_ms  # buckets that end by here are complete
        if step.step_s not in self._made_until:
            newest = (
                Sample.objects.filter(step_s=step.step_s).order_by("-at_ms").values_list("at_ms", flat=True)
            )
            first = newest.first()
            made = first + size_ms if first is not None else last - 10 * size_ms
            self._made_until[step.step_s] = max(made, last - 60 * size_ms)
        start = self._made_until[step.step_s]
        if start >= last:
            return
        fine = list(
            Sample.objects.filter(step_s=step.made_of_s, at_ms__gte=start, at_ms__lt=last)
            .order_by("at_ms")
            .values_list("at_ms", "data")
        )
        buckets: dict[int, list[dict[str, Any]]] = {}
        for at_ms, data in fine:
            buckets.setdefault(at_ms // size_ms * size_ms, []).append(data)
        Sample.objects.bulk_create(
            [Sample(step_s=step.step_s, at_ms=at, data=coarsen(found)) for at, found in buckets.items()],
            ignore_conflicts=True,
        )
        self._made_until[step.step_s] = last


def trim(now_ms: int) -> int:
    """Removes samples past their step's time; how many."""
    removed = 0
    for step in STEPS:
        removed += Sample.objects.filter(step_s=step.step_s, at_ms__lt=now_ms - 1000 * step.kept_s).delete()[
            0
        ]
    return removed

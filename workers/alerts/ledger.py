"""What was decided and is not written down yet, and what does a page show of it meanwhile? Pure; any thread.

Rules are evaluated whether or not the database answers. What comes of it waits here, in order, and is short:
of a rule on a queue it holds what fired, how bad it became, that it cleared, and who was told.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from .delivery import Delivered
from .rules import AlertKey, Rule
from .sentences import say_alert

MOST: Final = 2_000  # acts; beyond it outcomes of deliveries are dropped first, and counted
SEEN_WITHIN_MS: Final = 30_000  # a page's facts are read more often than that
FIRE, PEAK, CLEAR, TOLD = "fire", "peak", "clear", "told"


@dataclass(frozen=True, slots=True)
class Act:
    """``at_ms`` is when it was decided; ``value`` what was measured, of a fire or a peak."""

    kind: str
    key: AlertKey
    at_ms: int
    rule: Rule | None = None
    value: float | None = None
    peak: float | None = None
    runbook: str = ""
    delivered: Delivered | None = None


class Ledger:
    def __init__(self) -> None:
        self._acts: deque[Act] = deque()
        self._written: deque[tuple[int, Act]] = deque()
        self._lock = threading.Lock()
        self.dropped = 0

    def add(self, act: Act) -> None:
        with self._lock:
            if act.kind == PEAK and self._merge_peak(act):
                return
            self._acts.append(act)
            if len(self._acts) > MOST:
                self._drop_one()

    def head(self) -> Act | None:
        with self._lock:
            return self._acts[0] if self._acts else None

    def done(self, act: Act, *, now_ms: int) -> None:
        """Written down. A fire that grew worse while it was written leaves its peak to be written."""
        with self._lock:
            if not self._acts or self._acts[0].key != act.key or self._acts[0].kind != act.kind:
                return
            now = self._acts.popleft()
            if now.kind in (FIRE, CLEAR):
                self._written.append((now_ms, now))
            if now.peak != act.peak and now.kind in (FIRE, PEAK):
                self._acts.appendleft(replace(now, kind=PEAK))

    def waiting(self) -> tuple[Act, ...]:
        with self._lock:
            return tuple(self._acts)

    def unseen(self, *, now_ms: int) -> tuple[Act, ...]:
        """What a reading of the database may not know: what waits, and what was written down just now."""
        with self._lock:
            while self._written and now_ms - self._written[0][0] > SEEN_WITHIN_MS:
                self._written.popleft()
            return (*(act for _, act in self._written), *self._acts)

    def _merge_peak(self, act: Act) -> bool:
        for n in range(len(self._acts) - 1, -1, -1):
            was = self._acts[n]
            if was.key == act.key and was.kind in (FIRE, PEAK):
                self._acts[n] = replace(was, peak=act.peak)
                return True
            if was.key == act.key and was.kind == CLEAR:
                return False
        return False

    def _drop_one(self) -> None:
        for n, act in enumerate(self._acts):
            if n and act.kind in (TOLD, PEAK):
                del self._acts[n]
                break
        else:
            del self._acts[1]
        self.dropped += 1


def show_open(
    items: Iterable[Mapping[str, Any]], unseen: Iterable[Act], name_of: Callable[[AlertKey], str]
) -> list[dict[str, Any]]:
    """The open alerts as the database was read last, with what it may not have known: newest first."""
    shown = {(str(item["rule"]), item["queue"] or ""): dict(item) for item in items}
    for act in unseen:
        place = (act.rule.name if act.rule else name_of(act.key), act.key.queue)
        if act.kind == FIRE:
            shown.setdefault(place, item_of(act))  # what was read has an id to act on
        elif act.kind == PEAK and place in shown:
            item = shown[place]
            said = say_alert(item["measure"], act.key.queue, act.peak, item["threshold"])
            shown[place] = {**item, "peak": act.peak, "sentence": said}
        elif act.kind == CLEAR and place in shown and shown[place]["fired_at_ms"] <= act.key.fired_at_ms:
            del shown[place]
    return sorted(shown.values(), key=lambda item: -item["fired_at_ms"])


def item_of(act: Act) -> dict[str, Any]:
    """An alert that fired and is not written down, as a frame shows alerts: without an id to act on."""
    rule = act.rule
    assert rule is not None
    peak = act.peak if act.peak is not None else act.value
    item: dict[str, Any] = {
        "id": None,
        "rule": rule.name,
        "queue": act.key.queue or None,
        "measure": rule.measure,
        "severity": rule.severity,
        "value": act.value,
        "peak": peak,
        "threshold": rule.threshold,
        "fired_at_ms": act.key.fired_at_ms,
        "acknowledged_by": None,
        "snoozed_until_at_ms": None,
        "runbook": act.runbook,
        "sentence": say_alert(rule.measure, act.key.queue, peak, rule.threshold),
    }
    unknown = {"id": "not written down yet", "snoozed_until_at_ms": "not snoozed"}
    return {**item, "unknown": unknown}

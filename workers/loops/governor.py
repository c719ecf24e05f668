"""Does the mode follow from what is measured, and is every change of it written down?"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from django.db import Error

from ..exceptions import StoreUnavailable
from ..models import Transition
from ..modes.controller import AUTHOR, Change, Memory, decide
from ..modes.reading import read_queue
from ..modes.redis_health import redis_failed
from ..store import Store

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 1.0
UNWRITTEN_MAX = 1_000  # transitions kept for a database that is away
Latest = Callable[[], tuple[dict[str, Any], dict[str, Any]] | None]  # (frame, snapshot), None when stale


class Governor:
    """Applies what the controller decides; what an operator set is theirs until its end."""

    def __init__(self, store: Store, latest: Latest, health: Callable[[], Mapping[str, Any]]) -> None:
        self._store = store
        self._latest = latest
        self._health = health
        self._memories: dict[str, Memory] = {}
        self._unwritten: deque[Transition] = deque(maxlen=UNWRITTEN_MAX)
        self._seen_at_ms = 0
        self._stored = "normal"  # the installation's mode as the store had it last
        self._operators = False
        self._outage = ""  # the mode before an outage that the store could not write
        self._refused = False  # whether the store could not write a mode just now
        self._applied_at_ms: dict[str, int] = {}

    def tick(self) -> bool:
        found = self._latest()
        if found is not None and int(found[1]["now_ms"]) > self._seen_at_ms:
            self._seen_at_ms = int(found[1]["now_ms"])
            self._govern(*found)
        self._note_outage(found[1]["modes"] if found is not None else None)
        return False

    def _note_outage(self, modes: Mapping[str, Any] | None) -> None:
        """An outage that the store cannot hold as a mode is written down all the same, its end too.

        Not over a mode that an operator set: that one stands, and the newest row must go on saying so.
        """
        entry = (modes or {}).get("*") or {}
        if modes is not None and self._seen_at_ms >= self._applied_at_ms.get("*", 0):
            self._stored = str(entry.get("mode") or "normal")
            self._operators = bool(entry) and not entry.get("automatic") and self._stored != "normal"
        now_ms = self._store.clock.now_ms()
        broken = redis_failed(self._health(), now_ms=now_ms)
        unheld = modes is None or self._refused
        if broken and unheld and not self._outage and not self._operators and self._stored != "failed":
            self._outage = self._stored
            self._note(self._stored, "failed", broken, now_ms)
        elif not broken and self._outage and modes is not None:
            if self._stored != "failed":
                self._note("failed", self._stored, "Redis can be written again", now_ms)
            self._outage = ""

    def _note(self, before: str, after: str, reason: str, now_ms: int) -> None:
        log.info("*: %s to %s: %s", before, after, reason)
        self._unwritten.append(
            Transition(
                scope="*",
                before=before,
                after=after,
                by=AUTHOR,
                automatic=True,
                reason=reason,
                measure="redis",
                at_ms=now_ms,
            )
        )

    def _govern(self, frame: Mapping[str, Any], snapshot: Mapping[str, Any]) -> None:
        now_ms, modes = int(snapshot["now_ms"]), snapshot["modes"]
        broken = redis_failed(self._health(), now_ms=now_ms)
        readings = {
            row["name"]: read_queue(row, snapshot["policies"].get(row["name"], {})) for row in frame["queues"]
        }
        scopes = {"*": list(readings.values())}
        scopes |= {name: [readings[name]] for name in modes if name in readings}
        for scope in set(self._memories) - set(scopes):
            del self._memories[scope]
        for scope, seen in scopes.items():
            if now_ms < self._applied_at_ms.get(scope, 0):
                continue  # the snapshot is older than what was done since
            memory, change = decide(
                self._memories.get(scope, Memory()),
                seen,
                modes.get(scope),
                now_ms=now_ms,
                broken=broken if scope == "*" else "",
                automatic=scope == "*",
            )
            self._memories[scope] = memory
            if change is not None:
                self._apply(scope, change)

    def _apply(self, scope: str, change: Change) -> None:
        figures = {"measure": change.measure, "value": change.value, "threshold": change.threshold}
        try:
            done = self._store.set_mode(
                scope,
                change.mode,
                by=AUTHOR,
                reason=change.reason,
                # An operator's own end must replace what the operator set; nothing else may.
                automatic=not change.ends_operators,
                figures=figures,
            )
        except StoreUnavailable as exc:
            # A Redis that cannot be written cannot hold the mode either: the frame says failed by itself.
            log.debug("mode %s not written: %s", change.mode, exc.reason)
            self._refused = True
            return
        self._refused = False
        if done["kept"]:
            return
        self._applied_at_ms[scope] = int(done["after"]["since_at_ms"])
        if scope == "*":
            self._stored = change.mode
            if self._outage and change.mode == "failed":
                return  # written down when the outage began
        before = (done["before"] or {}).get("mode") or "normal"
        log.info("%s: %s to %s: %s", scope, before, change.mode, change.reason)
        self._unwritten.append(
            Transition(
                scope=scope,
                before=before,
                after=change.mode,
                by=AUTHOR,
                automatic=True,
                reason=change.reason,
                measure=change.measure,
                value=change.value,
                threshold=change.threshold,
                at_ms=done["after"]["since_at_ms"],
            )
        )

    def write(self) -> bool:
        """Writes transitions down; a loop of its own, so that a slow database delays no change of mode."""
        while self._unwritten:
            row = self._unwritten[0]
            try:
                row.save(force_insert=True)
            except Error as exc:
                log.warning("%d transitions wait for the database: %s", len(self._unwritten), exc)
                return False
            if self._unwritten and self._unwritten[0] is row:  # else too many came meanwhile: it was dropped
                self._unwritten.popleft()
        return False

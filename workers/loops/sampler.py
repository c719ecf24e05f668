"""What is the state of everything, this second? Snapshot, frame, store and broadcast."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ..exceptions import StoreUnavailable
from ..metrics.history import History
from ..metrics.objective import Promises
from ..store import Store
from ..store.bins import bin_value_ms
from .frame.build import build_frame
from .frame.inputs import Context, DatabaseFacts, Memory

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 1.0
STALE_AFTER_S = 3.0  # nothing is decided on a frame older than this
Broadcast = Callable[[str], None]
Compare = Callable[[Mapping[str, Any], Mapping[str, Any]], None]  # the snapshot before and this one
Listener = Callable[[dict[str, Any], dict[str, Any]], None]  # (frame, snapshot)


class Sampler:
    """The one reader of the gate's state; everything else in the monitor works from what it read."""

    def __init__(
        self,
        store: Store,
        *,
        installation: str,
        broadcast: Broadcast,
        facts: Callable[[], DatabaseFacts],
        listeners: tuple[Listener, ...] = (),
        wish: str = "",
        compare: Compare | None = None,
    ) -> None:
        self._wish = wish
        self._compare = compare
        self._store = store
        self._installation = installation
        self._broadcast = broadcast
        self._facts = facts
        self._listeners = listeners
        self.history = History()
        self.promises = Promises()
        self._memory = Memory()
        self._knows_earlier = False
        self._seq: int | None = None
        self._ticked = 0.0
        self.health: dict[str, Any] = {"state": "unknown"}
        self.frame: dict[str, Any] | None = None
        self._latest: tuple[float, dict[str, Any], dict[str, Any]] | None = None

    def latest(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The newest frame and its snapshot; None once they are too old to act on."""
        found = self._latest
        if found is None or time.monotonic() - found[0] > STALE_AFTER_S:
            return None
        return found[1], found[2]

    def queues(self) -> list[str]:
        """The queues known last, however long ago: their jobs need care all the same."""
        return list(self._latest[2]["queues"]) if self._latest else []

    def queues_with(self, *fields: str) -> list[str]:
        """Those in which one of these figures was not zero in the last snapshot; all without a recent one."""
        found = self.latest()
        if found is None:
            return self.queues()
        return [
            name for name, queue in found[1]["queues"].items() if any(queue.get(field) for field in fields)
        ]

    def copy_history(self) -> History:
        """For other threads: the deque is copied in one step, and the snapshots in it never change."""
        return History(deque(self.history.snapshots), self.history.cut_at_ms, self.history.cut_reason)

    def read_health(self) -> dict[str, Any]:
        return self.health

    def tick(self) -> bool:
        started = time.monotonic()
        try:
            snapshot = self._store.snapshot()
        except StoreUnavailable as exc:
            self._note_health({"state": exc.reason, "detail": exc.detail[:200]}, self._store.clock.now_ms())
            raise
        read = time.monotonic()
        now_ms = int(snapshot["now_ms"])
        self._note_health(self._store.health(), now_ms)
        if self._seq is None or read - self._ticked > STALE_AFTER_S:
            self._resume()  # somebody else may have led meanwhile
        self._ticked = read
        before = self.history.latest
        if before is not None and self._compare is not None:
            self._compare(before, snapshot)
        self.history.add(snapshot)
        facts = self._facts()
        self._note_promises(snapshot, facts)
        self._seq = (self._seq or 0) + 1
        context = Context(
            installation=self._installation,
            gate=self._store.gate,
            seq=self._seq,
            bin_value=bin_value_ms,
            redis=self.health,
            facts=facts,
            promises=self.promises,
            sampled_ago_ms=round((time.monotonic() - read) * 1000),
            wish=self._wish,
        )
        frame, self._memory = build_frame(self.history, context, self._memory)
        self.frame = frame
        self._latest = (read, frame, snapshot)
        text = json.dumps(frame, allow_nan=False, separators=(",", ":"))
        try:
            self._store.put_frame(text)
        except StoreUnavailable as exc:
            # A full Redis refuses the copy and still passes the broadcast on.
            self._note_health({**self.health, "state": exc.reason, "detail": exc.detail[:200]}, now_ms)
        try:
            self._broadcast(text)
        except Exception as exc:  # noqa: BLE001 - pages read the stored frame; history goes on
            log.warning("frame %d was not broadcast: %s", self._seq, type(exc).__name__)
        for listener in self._listeners:
            listener(frame, snapshot)
        if time.monotonic() - started > INTERVAL_S:
            log.warning("one frame took %.1f s", time.monotonic() - started)
        return False

    def _note_promises(self, snapshot: dict[str, Any], facts: DatabaseFacts) -> None:
        counters = {
            name: (int(queue["totals"]["promised"]), int(queue["totals"]["in_objective"]))
            for name, queue in snapshot["queues"].items()
        }
        self.promises.add(int(snapshot["now_ms"]), counters)
        if facts.promises and not self._knows_earlier:
            self._knows_earlier = True
            self.promises.take_earlier(facts.promises)

    def _note_health(self, health: dict[str, Any], now_ms: int) -> None:
        same = health.get("state") == self.health.get("state")
        since = self.health.get("since_at_ms") if same else now_ms
        self.health = {**health, "since_at_ms": since if since is not None else now_ms}

    def _resume(self) -> None:
        """Goes on from the last leader's frame: the sequence, and since when each queue is what it is."""
        try:
            text = self._store.read_frame()
            last = json.loads(text) if text else {}
            self._seq = max(self._seq or 0, int(last.get("seq") or 0))
            states = {q["name"]: (q["state"], int(q["state_since_at_ms"])) for q in last.get("queues", [])}
            self._memory = Memory(states=states)
        except (ValueError, KeyError, TypeError):
            self._seq = self._seq or 0

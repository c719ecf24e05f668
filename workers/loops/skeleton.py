"""What is a background service? A name, an interval and one step that says whether it did work."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..exceptions import StoreUnavailable

log = logging.getLogger("sluicegate.monitor")

REPEAT_LOG_S = 30.0  # the same trouble is said once, then every so often


@dataclass(frozen=True, slots=True)
class Loop:
    """One service. `tick` does one step; True asks for the next one at once, up to `burst` times."""

    name: str
    interval_s: float
    tick: Callable[[], bool]
    leader_only: bool = True
    burst: int = 20
    through_outage: bool = False  # the last leader goes on with it while Redis is away


class LoopThread(threading.Thread):
    """Runs one loop until stopped; an error is logged and the loop lives."""

    def __init__(
        self,
        loop: Loop,
        *,
        stop: threading.Event,
        leads: Callable[[], bool],
        leads_or_waits: Callable[[], bool] | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(name=f"monitor-{loop.name}", daemon=True)
        self.loop = loop
        self._stop_event = stop
        self._leads = leads if leads_or_waits is None or not loop.through_outage else leads_or_waits
        self._after = after
        self._said: tuple[str, float] = ("", 0.0)

    def run(self) -> None:
        due = time.monotonic()
        while not self._stop_event.is_set():
            if self._leads() or not self.loop.leader_only:
                self.step()
            due += self.loop.interval_s
            now = time.monotonic()
            due = max(due, now)  # behind by more than a step: go on from here rather than rush to catch up
            self._stop_event.wait(due - now)

    def step(self) -> None:
        """One interval's work: the tick, again while it says that there is more."""
        for _ in range(self.loop.burst):
            try:
                more = self.loop.tick()
            except StoreUnavailable as exc:
                self._say(f"Redis: {exc.reason}", None)
                return
            except Exception as exc:  # noqa: BLE001 - whatever it is, the next step may work
                self._say(f"{type(exc).__name__}: {exc}", exc)
                return
            finally:
                if self._after is not None:
                    self._after()
            if not more or self._stop_event.is_set():
                break
        if self._said[0]:
            log.info("%s goes on", self.loop.name)
            self._said = ("", 0.0)

    def _say(self, what: str, exc: BaseException | None) -> None:
        now = time.monotonic()
        if what == self._said[0] and now - self._said[1] < REPEAT_LOG_S:
            return
        self._said = (what, now)
        if exc is None:
            log.warning("%s waits: %s", self.loop.name, what)
        else:
            log.error("%s failed and goes on: %s", self.loop.name, what, exc_info=exc)

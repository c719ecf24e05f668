"""Can the gate be reached? One caller finds out for all, so that nobody waits in line for a dead Redis."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from typing import Final

from workers.exceptions import StoreUnavailable
from workers.store import Store

from .engine import open_gate

STALE_PROBE_S: Final = 5.0  # a probe that never came back is taken as gone after this
QUIET_S: Final = 0.5  # after a failure nobody tries: who waited in line meanwhile is answered at once
PATIENCE_S: Final = 0.15  # how long the others wait for the one that tries, from when it began
BLOCKING: Final = ("down", "timeout", "loading", "auth")  # a full or read-only Redis still answers reads


class Breaker:
    """After a failure one caller at a time may try again; the others are told at once."""

    def __init__(self) -> None:
        self._why: str | None = None
        self._probe_since: float | None = None
        self._quiet_until = 0.0
        self._changed = Condition()

    def enter(self) -> None:
        with self._changed:
            if self._is_probed():
                # The answer may be there in a moment: a burst right after a recovery is not turned away.
                young_s = PATIENCE_S - (time.monotonic() - (self._probe_since or 0.0))
                if young_s > 0:
                    self._changed.wait_for(lambda: not self._is_probed(), young_s)
            if self._why is None:
                return
            now = time.monotonic()
            if self._is_probed() or now < self._quiet_until:
                raise StoreUnavailable(self._why)
            self._probe_since = now

    def fail(self, fault: StoreUnavailable) -> None:
        with self._changed:
            self._probe_since = None
            self._why = fault.reason if fault.reason in BLOCKING else None
            self._quiet_until = time.monotonic() + QUIET_S
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._why = self._probe_since = None
            self._changed.notify_all()

    def _is_probed(self) -> bool:
        since = self._probe_since
        return self._why is not None and since is not None and time.monotonic() - since < STALE_PROBE_S


breaker = Breaker()


@contextmanager
def reach_gate() -> Iterator[Store]:
    """The gate's store; raises StoreUnavailable at once while another caller waits for it in vain."""
    breaker.enter()
    try:
        yield open_gate()
    except StoreUnavailable as fault:
        breaker.fail(fault)
        raise
    except BaseException:
        breaker.close()  # an answer of another kind: it was reached
        raise
    breaker.close()

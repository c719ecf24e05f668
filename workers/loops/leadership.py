"""Which of several monitors leads? The one that holds a lease in Redis."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from ..exceptions import StoreUnavailable

log = logging.getLogger("sluicegate.monitor")

LEASE_NAME = "monitor"
LEASE_MS = 5_000
RENEW_S = 1.0


class LeaseStore(Protocol):
    def acquire_lease(self, name: str, holder: str, ttl_ms: int) -> bool: ...

    def release_lease(self, name: str, holder: str) -> None: ...


class Leadership:
    """Holds the lease while it can; a holder that cannot reach Redis stops leading before its lease ends."""

    def __init__(self, store: LeaseStore, holder: str) -> None:
        self._store = store
        self._holder = holder
        self._led_until = 0.0
        self._away = False  # Redis could not be asked just now
        self._last = False  # whether this one held the lease when Redis was last asked

    def leads(self) -> bool:
        return time.monotonic() < self._led_until

    def leads_or_waits(self) -> bool:
        """Also true for the last leader while Redis is away: it keeps asking and writes the outage down.

        Without Redis it can change nothing there, so that two could hardly get in each other's way.
        """
        return self.leads() or (self._away and self._last)

    def renew(self) -> bool:
        """One step of the loop that keeps the lease."""
        asked_at = time.monotonic()
        led = self.leads()
        try:
            if self._store.acquire_lease(LEASE_NAME, self._holder, LEASE_MS):
                # Counted from before the call, and a little short: the other side counts from after it.
                self._led_until = asked_at + LEASE_MS / 1000 - 0.5
            else:
                self._led_until = 0.0
            self._away, self._last = False, self.leads()
        except StoreUnavailable:
            self._away = True  # what is held runs out by itself
        if led != self.leads():
            log.info("%s leads%s", self._holder, "" if self.leads() else " no longer")
        return False

    def release(self) -> None:
        if self.leads():
            self._led_until = 0.0
            try:
                self._store.release_lease(LEASE_NAME, self._holder)
            except StoreUnavailable:
                pass

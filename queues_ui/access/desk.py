"""How does the door ask the database without waiting for one that is away? At a desk of its own.

A request thread that asks a database that hangs (a lock, a frozen server, a dead network) hangs with it, and
no driver gives up by itself. So what an admission must look up is asked by a few threads kept for that, for
a limited time; who asks falls back on what was known before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Final, TypeVar

from django.db import Error, OperationalError, close_old_connections, connection

log = logging.getLogger(__name__)

ASKED_AT_ONCE: Final = 4
WITHIN_S: Final = 0.6  # of the two seconds in which the door answers
TRUSTED_S: Final = 2.0  # after an answer nobody looks whether it is still there
QUIET_S: Final = 1.0  # after a failure nobody asks: they are told at once

T = TypeVar("T")


class DatabaseAway(OperationalError):
    """The database did not answer in time, or said that it cannot."""


class Desk:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(ASKED_AT_ONCE, thread_name_prefix="desk")
        self._asked = threading.Semaphore(ASKED_AT_ONCE)
        self._quiet_until = 0.0
        self._served_at = float("-inf")
        self.since: float | None = None  # Unix seconds of the first failure after the last success

    def ask(self, look_up: Callable[[], T], *, within_s: float = WITHIN_S) -> T:
        """What ``look_up`` finds.

        Raises:
            DatabaseAway: it failed, or took too long.
        """
        if connection.in_atomic_block:
            return look_up()  # it must see what its own transaction wrote
        if time.monotonic() < self._quiet_until:
            raise DatabaseAway("the database failed a moment ago")
        if not self._asked.acquire(timeout=within_s):
            raise self._fail("every question before this one still waits for it")
        future: Future[T] = self._pool.submit(self._run, look_up)
        try:
            found = future.result(within_s)
        except NotYet:
            raise self._fail("it has not answered") from None
        except Error as fault:
            raise self._fail(str(fault)) from fault
        self._served_at, self.since = time.monotonic(), None
        return found

    @property
    def has_served(self) -> bool:
        return self._served_at > float("-inf")

    def ensure(self) -> None:
        """Raises DatabaseAway at once or within a moment, where a query of the caller's own might hang."""
        if time.monotonic() - self._served_at > TRUSTED_S:
            self.ask(_select)

    def hand_over(self, write: Callable[[], object]) -> None:
        """Done when there is time; left out while the desk is busy. Its failure hinders nobody."""
        if connection.in_atomic_block:
            write()
        elif time.monotonic() >= self._quiet_until and self._asked.acquire(blocking=False):
            self._pool.submit(self._run, write)

    def _run(self, look_up: Callable[[], T]) -> T:
        try:
            close_old_connections()
            return look_up()
        finally:
            close_old_connections()
            self._asked.release()

    def _fail(self, why: str) -> DatabaseAway:
        self._quiet_until = time.monotonic() + QUIET_S
        if self.since is None:
            self.since = time.time()
            log.warning("the database is away: %s", why)
        return DatabaseAway(why)


def _select() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


desk = Desk()

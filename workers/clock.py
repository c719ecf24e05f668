"""What time is it by Redis's clock, without asking each time?"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since the epoch."""

    def now_ms(self) -> int: ...


class RedisClock:
    """Redis's clock, carried forward by this process's monotonic one.

    Every script reply brings Redis's time; ``set`` notes it, ``now_ms`` adds what has passed since.
    The error is at most the one-way delay of the reply that set it, some tenths of a millisecond on
    a local network. ``None`` until the first reply.
    """

    def __init__(self) -> None:
        self._offset_ms: float | None = None

    def set(self, redis_now_ms: int) -> None:
        self._offset_ms = redis_now_ms - time.monotonic() * 1000

    @property
    def is_set(self) -> bool:
        return self._offset_ms is not None

    def now_ms(self) -> int:
        return self.at_ms(time.monotonic())

    def at_ms(self, monotonic_s: float) -> int:
        """Redis's time at a moment of this process's monotonic clock."""
        offset = self._offset_ms
        if offset is None:
            return int(time.time() * 1000)
        return int(offset + monotonic_s * 1000)

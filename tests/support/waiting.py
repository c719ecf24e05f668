"""How does a test wait? On a condition, never for a length of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, within_s: float = 15.0, what: str = "") -> T:
    """The first truthy answer of ``condition``; an exception in it means not yet, and is shown at the end."""
    give_up_at = time.monotonic() + within_s
    last: object = None
    while True:
        try:
            last = condition()
            if last:
                return last  # type: ignore[return-value]
        except Exception as fault:  # noqa: BLE001 what is not up yet answers with all kinds of errors
            last = fault
        if time.monotonic() > give_up_at:
            raise AssertionError(f"not within {within_s:g} s: {what or condition}; last was {last!r}")
        time.sleep(0.05)

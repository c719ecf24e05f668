"""How does a test wait? On a condition, never for a length of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_LOOK_EVERY_S = 0.05
#: Where a look takes longer than this, the machine is busy, and what is waited for is as slow as the test.
_A_SLOW_LOOK_S = 0.1
_LONGEST = 4


def wait_until(condition: Callable[[], T], *, within_s: float = 15.0, what: str = "") -> T:
    """The first truthy answer of ``condition``; an exception in it means not yet, and is shown at the end.

    ``within_s``: how long on a quiet machine. On a busy one the looks come later than they should, and the
    wait goes on until there have been enough of them, for four times as long at most.
    """
    began = time.monotonic()
    looks = 0
    last: object = None
    while True:
        looks += 1
        try:
            last = condition()
            if last:
                return last  # type: ignore[return-value]
        except Exception as fault:  # noqa: BLE001 what is not up yet answers with all kinds of errors
            last = fault
        waited_s = time.monotonic() - began
        if waited_s > within_s and (looks * _A_SLOW_LOOK_S > within_s or waited_s > within_s * _LONGEST):
            raise AssertionError(f"not within {waited_s:g} s: {what or condition}; last was {last!r}")
        time.sleep(_LOOK_EVERY_S)

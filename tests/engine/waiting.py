"""How does a test wait: for a condition, with a limit, and with a word on what was missing?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, *, limit_s: float = 15.0, step_s: float = 0.02) -> T:
    """The first true answer of ``condition``.

    Raises:
        AssertionError: it did not become true within ``limit_s``; names ``what`` and the last answer.
    """
    give_up_at = time.monotonic() + limit_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > give_up_at:
            raise AssertionError(f"not within {limit_s:g} s: {what} (last answer: {answer!r})")
        time.sleep(step_s)

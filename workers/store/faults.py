"""Which of Redis's many errors mean that the gate cannot be served, and in what word?"""

from __future__ import annotations

from typing import NoReturn

import redis
from redis import exceptions as faults

from ..exceptions import StoreUnavailable

#: Beginnings of error replies and the word for each.
_REPLIES = {
    "OOM": "full",
    "MISCONF": "readonly",
    "READONLY": "readonly",
    "LOADING": "loading",
    "MASTERDOWN": "down",
    "NOREPLICAS": "readonly",
    "NOAUTH": "auth",
    "WRONGPASS": "auth",
    "NOPERM": "auth",
    "BUSY": "busy",
}


def word_for(exc: BaseException) -> str:
    """One of down, timeout, loading, readonly, full, auth, busy, error."""
    if isinstance(exc, faults.BusyLoadingError):
        return "loading"
    if isinstance(exc, faults.ReadOnlyError):
        return "readonly"
    if isinstance(exc, (faults.AuthenticationError, faults.NoPermissionError)):
        return "auth"
    if isinstance(exc, (faults.TimeoutError, TimeoutError)):
        return "timeout"
    text = str(exc)
    for beginning, word in _REPLIES.items():
        # A script's own error reply names the cause inside the text.
        if text.startswith(beginning) or f" {beginning} " in text or "-" + beginning in text:
            return word
    if "used memory > 'maxmemory'" in text:
        return "full"
    if isinstance(exc, (faults.ConnectionError, OSError)):
        return "down"
    return "error"


def raise_unavailable(exc: redis.RedisError | OSError) -> NoReturn:
    """Turns a Redis error into the gate's own, with its cause kept.

    Raises:
        StoreUnavailable: always.
    """
    raise StoreUnavailable(word_for(exc), str(exc)[:500]) from exc

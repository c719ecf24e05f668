"""What does an acceptance promise: which failure does it survive?"""

from __future__ import annotations

import time
from typing import Any, Final

from django.conf import settings

from workers.exceptions import StoreUnavailable
from workers.store import Store

FRESH_S: Final = 30.0
_seen: tuple[float, str] = (0.0, "unknown")


def durability_of(store: Store) -> str:
    """One of memory, aof-no, aof-everysec, aof-always, unknown; asked again after half a minute."""
    global _seen
    at, word = _seen
    if word == "unknown" or time.monotonic() - at > FRESH_S:
        try:
            word = _word(store.health())
        except StoreUnavailable:
            word = "unknown"
        _seen = (time.monotonic(), word)
    return word


def _word(health: dict[str, Any]) -> str:
    if health.get("state") in (None, "down", "timeout", "auth"):
        return "unknown"
    if not health.get("aof"):
        return "memory"
    return f"aof-{health.get('appendfsync') or settings.SLUICEGATE_DURABILITY}"

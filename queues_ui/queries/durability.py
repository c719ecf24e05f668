"""What does an acceptance promise: which failure does it survive?"""

from __future__ import annotations

import time
from typing import Final

from django.conf import settings

from workers.exceptions import StoreUnavailable
from workers.store import Store
from workers.store.durability import REPLICA, REPLICA_WAIT_MS, UNKNOWN

FRESH_S: Final = 1.0  # who changes the server's setting is believed within this
_seen: tuple[float, str] = (0.0, UNKNOWN)


def durability_of(store: Store) -> str:
    """One of memory, everysec, always, unknown: what the server's own settings amount to."""
    global _seen
    at, word = _seen
    if word == UNKNOWN or time.monotonic() - at > FRESH_S:
        try:
            word = store.read_durability()
        except StoreUnavailable:
            word = UNKNOWN
        _seen = (time.monotonic(), word)
    return word


def note_of(durability: str) -> str | None:
    """What to add to an acceptance that has not got the copy that was asked for."""
    if settings.SLUICEGATE_DURABILITY != REPLICA or durability == REPLICA:
        return None
    return (
        f"No replica confirmed this within {REPLICA_WAIT_MS} ms. The job is accepted and runs all the same; "
        f"until a replica has it, it survives what {durability} survives."
    )

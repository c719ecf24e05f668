"""Which store do Django's processes share?"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from django.conf import settings

from ..store import Store
from ..store.durability import REPLICA

TIMEOUT_S: Final = 1.0  # the door answers within two seconds, whatever else it has to do


@lru_cache(maxsize=1)
def open_gate() -> Store:
    """One client a process; redis-py's pool makes it safe to share among threads."""
    return Store.from_url(
        settings.SLUICEGATE_REDIS_URL,
        gate=settings.SLUICEGATE_GATE,
        timeout_s=TIMEOUT_S,
        wait_replicas=int(settings.SLUICEGATE_DURABILITY == REPLICA),
    )


def redis_now_ms(store: Store) -> int:
    """Redis's time; asked for once, then carried forward by this process's clock."""
    if not store.clock.is_set:
        store.promote([])  # any script's reply tells it
    return store.clock.now_ms()

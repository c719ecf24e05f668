"""Which store do Django's processes share?"""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from ..store import Store


@lru_cache(maxsize=1)
def open_gate() -> Store:
    """One client a process; redis-py's pool makes it safe to share among threads."""
    return Store.from_url(settings.SLUICEGATE_REDIS_URL, gate=settings.SLUICEGATE_GATE)

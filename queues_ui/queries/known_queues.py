"""Which queues have a policy? Read from the database, so that Redis need not answer."""

from __future__ import annotations

import time

from workers.models import PolicyVersion

FRESH_S = 2.0
_seen: tuple[float, frozenset[str]] = (0.0, frozenset())


def known_queues() -> frozenset[str]:
    global _seen
    at, names = _seen
    if not names or time.monotonic() - at > FRESH_S:
        names = frozenset(PolicyVersion.objects.order_by().values_list("queue", flat=True).distinct())
        _seen = (time.monotonic(), names)
    return names

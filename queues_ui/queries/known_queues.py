"""Which queues have a policy? Read from the database, so that Redis need not answer; from it when it must."""

from __future__ import annotations

import time

from workers.models import PolicyVersion

from ..access.desk import DatabaseAway, desk
from .engine import open_gate

FRESH_S = 2.0
_seen: tuple[float, frozenset[str]] = (0.0, frozenset())


def known_queues() -> frozenset[str]:
    global _seen
    at, names = _seen
    if not names or time.monotonic() - at > FRESH_S:
        try:
            names = desk.ask(_read)
        except DatabaseAway:
            names = names or frozenset(open_gate().read_policies())
        _seen = (time.monotonic(), names)
    return names


def _read() -> frozenset[str]:
    return frozenset(PolicyVersion.objects.order_by().values_list("queue", flat=True).distinct())

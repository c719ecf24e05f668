"""Which queues have a policy? Read from the database, so that Redis need not answer; from it when it must."""

from __future__ import annotations

import time

from workers.models import PolicyVersion

from ..access.desk import DatabaseAway, desk
from .engine import open_gate

FRESH_S = 2.0
_seen: tuple[float, frozenset[str]] = (0.0, frozenset())


def has_policy(queue: str) -> bool:
    """Whether a queue has a policy; one that was made a moment ago, by whichever process, counts."""
    return queue in known_queues() or queue in known_queues(fresh_s=0.0)


def known_queues(*, fresh_s: float = FRESH_S) -> frozenset[str]:
    global _seen
    at, names = _seen
    if not names or time.monotonic() - at > fresh_s:
        try:
            names = desk.ask(_read)
        except DatabaseAway:
            names |= frozenset(open_gate().read_policies())
        _seen = (time.monotonic(), names)
    return names


def _read() -> frozenset[str]:
    return frozenset(PolicyVersion.objects.order_by().values_list("queue", flat=True).distinct())

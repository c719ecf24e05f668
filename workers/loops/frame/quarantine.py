"""How much stands in quarantine?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.reasons import explain_nulls
from .inputs import DatabaseFacts


def quarantine_part(facts: DatabaseFacts, snapshot: Mapping[str, Any], *, now_ms: int) -> dict[str, Any]:
    """What the database holds and what still waits in Redis to be copied there."""
    spool = snapshot.get("quarantine_spool") or {}
    waiting, held = int(spool.get("count") or 0), facts.quarantine
    if held is None:
        names = ("count", "bytes", "oldest_age_ms")
        return explain_nulls(
            {**dict.fromkeys(names), "by_queue": None, "causes": [], "uncopied": waiting},
            dict.fromkeys(names, facts.unknown or "not read yet"),
        )
    oldest = [at for at in (held.get("oldest_at_ms"), spool.get("oldest_at_ms")) if at is not None]
    return {
        "count": int(held["count"]) + waiting,
        "bytes": int(held["bytes"]),
        "oldest_age_ms": max(0, now_ms - int(min(oldest))) if oldest else 0,
        "by_queue": dict(held.get("by_queue") or {}),
        "causes": list(held.get("causes") or []),
        "uncopied": waiting,
    }

"""Which ordering keys hold work back, and who holds them?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.reasons import explain_nulls

HOLDER_PHASES = {"waiting": "waiting", "delayed": "delayed", "leased": "in flight"}
UNKNOWN = {
    "epoch": "the first of the key has no lease",
    "worker": "the first of the key has no lease",
    "held_ms": "the record of the key's first job is gone",
}


def key_rows(queue: Mapping[str, Any], *, now_ms: int) -> list[dict[str, Any]]:
    """The ordering keys that have held work back longest: who holds each, since when, and how many wait."""
    rows = []
    for found in queue.get("blocked_keys") or ():
        since = found["holder_since_at_ms"]
        row = {
            "key": found["key"],
            "tenant": found["tenant"],
            "holder": found["holder"],
            "holder_phase": HOLDER_PHASES.get(found["holder_state"] or "", "gone"),
            "epoch": found["holder_epoch"],
            "worker": found["holder_worker"],
            "held_ms": None if since is None else max(0, now_ms - int(since)),
            "waiting": int(found["waiting"]),
            "oldest_age_ms": max(0, now_ms - int(found["oldest_at_ms"])),
        }
        rows.append(explain_nulls(row, UNKNOWN))
    return rows

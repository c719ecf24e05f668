"""Which failure does an acceptance survive? The words, what a server's settings amount to, what is amiss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: In Redis's memory: a killed server, or the loss of its machine, may lose it.
MEMORY: Final = "memory"
#: In the append-only file, which reaches the disk each second: a power cut may lose about the last second.
EVERYSEC: Final = "everysec"
#: On the primary's disk before the answer.
ALWAYS: Final = "always"
#: Received by a replica before the answer, beside what the primary's own file promises.
REPLICA: Final = "replica"
#: What a server that does not tell its settings amounts to.
UNKNOWN: Final = "unknown"

WORDS: Final = (MEMORY, EVERYSEC, ALWAYS, REPLICA)
_RANK: Final = {UNKNOWN: -1, MEMORY: 0, EVERYSEC: 1, ALWAYS: 2}

#: How long an admission waits for a replica, in ms: a part of the door's two seconds.
REPLICA_WAIT_MS: Final = 400


def boundary_of(persistence: Mapping[str, Any], appendfsync: str | None) -> str:
    """The boundary of a server by INFO persistence and CONFIG GET appendfsync, its own settings alone."""
    if not int(persistence.get("aof_enabled", 0)):
        return MEMORY
    if appendfsync is None:
        return UNKNOWN
    # "no" leaves it to the system: a killed server loses nothing, a power cut half a minute.
    return {"always": ALWAYS, "everysec": EVERYSEC}.get(appendfsync, MEMORY)


def find_unmet(wish: str, health: Mapping[str, Any]) -> str:
    """Why the server does not meet the wish, with the fix; empty where it does, or does not answer."""
    found = str(health.get("durability") or UNKNOWN)
    if wish not in WORDS or health.get("state") in (None, "down", "timeout", "loading", "auth", "unknown"):
        return ""
    if wish == REPLICA:
        if int(health.get("replicas") or 0) > 0:
            return ""
        return (
            f"SLUICEGATE_DURABILITY is replica and no replica is connected: acceptance is {found}; "
            "connect one (replicaof), or set what the server can keep"
        )
    if _RANK[found] >= _RANK[wish]:
        return ""
    if found == UNKNOWN:
        return (
            f"SLUICEGATE_DURABILITY is {wish} and the server does not say how often it syncs its append-only "
            "file (CONFIG GET is denied): acceptance names unknown"
        )
    fix = "appendonly yes" if not health.get("aof") else f"appendfsync {wish}"
    return f"SLUICEGATE_DURABILITY is {wish} and the server keeps {found}: set {fix} there"

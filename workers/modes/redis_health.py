"""Is Redis in a state in which nothing can be accepted, and for how long?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FAILED_AFTER_MS = 3_000  # a restart or a slow save is over sooner
UNWRITABLE = {
    "down": "Redis cannot be reached",
    "timeout": "Redis does not answer",
    "loading": "Redis is loading its data",
    "readonly": "Redis cannot be written",
    "full": "Redis is full",
    "auth": "Redis refuses the password",
}


def redis_failed(health: Mapping[str, Any], *, now_ms: int) -> str:
    """Why the installation is failed; empty while it is not."""
    said = UNWRITABLE.get(str(health.get("state")))
    since = health.get("since_at_ms")
    if said is None or since is None or now_ms - int(since) < FAILED_AFTER_MS:
        return ""
    detail = health.get("detail") if health.get("state") == "readonly" else ""
    return f"{said} ({detail})" if detail else said

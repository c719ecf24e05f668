"""Which mode is in force, since when, and when does it leave?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...modes.effect import Mode, in_force
from ...modes.redis_health import redis_failed

NO_MODE = {"mode_since_at_ms": "never changed", "mode_until_at_ms": "no end is set"}


def redis_failure(health: Mapping[str, Any], *, now_ms: int) -> Mode | None:
    """The entry of a mode that nobody set: Redis has failed. None while it has not."""
    why = redis_failed(health, now_ms=now_ms)
    if not why:
        return None
    return {"since_at_ms": int(health["since_at_ms"]), "reason": why, "by": "monitor", "automatic": True}


def find_mode(snapshot: Mapping[str, Any], scope: str, *, failure: Mode | None) -> tuple[str, Mode]:
    """The mode of a queue, or of all with `*`, and its entry; a failure goes before whatever was set."""
    if failure is not None:
        return "failed", failure
    mode, entry = in_force(snapshot["modes"], scope, now_ms=int(snapshot["now_ms"]))
    return mode, entry or {}


def mode_part(snapshot: Mapping[str, Any], *, failure: Mode | None) -> dict[str, Any]:
    """The installation's mode, for the top of the frame."""
    mode, entry = find_mode(snapshot, "*", failure=failure)
    return {
        "mode": mode,
        "mode_since_at_ms": entry.get("since_at_ms"),
        "mode_reason": entry.get("reason") or "",
        "mode_by": entry.get("by"),
        "mode_automatic": bool(entry.get("automatic")),
        "mode_until_at_ms": entry.get("until_at_ms"),
        "mode_pinned": bool(entry.get("pinned")),
        "mode_leaves": _say_leaves(mode, entry, failed=failure is not None),
    }


def _say_leaves(mode: str, entry: Mode, *, failed: bool) -> str | None:
    if failed:
        return "when Redis can be written again"
    if mode == "normal":
        return None
    if entry.get("until") == "drained":
        return "when the backlog is gone"
    if entry.get("until_at_ms") is not None:
        return "at its end, or when changed"
    if entry.get("automatic"):
        return {
            "saturated": "when every consumed queue is back under its low mark and guard for its hold time",
            "failed": "when the cause has been gone for the hold time",
        }.get(mode, "by itself")
    return "when changed by an operator"

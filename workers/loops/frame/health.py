"""In which state are Redis and the database?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.reasons import explain_nulls


def redis_part(health: Mapping[str, Any]) -> dict[str, Any]:
    part = {
        "state": health.get("state", "unknown"),
        "detail": health.get("detail") or "",
        "since_at_ms": health.get("since_at_ms"),
        "used_bytes": health.get("used_bytes"),
        "max_bytes": health.get("max_bytes"),
        "policy": health.get("policy"),
        "version": health.get("version"),
        "aof": health.get("aof"),
        "durability": health.get("durability"),
        "replicas": health.get("replicas"),
    }
    reasons = {
        "since_at_ms": "not seen changing",
        "used_bytes": "not told by the server",
        "max_bytes": "no maxmemory is set",
        "aof": "not told by the server",
        "durability": "not told by the server",
        "replicas": "not told by the server",
    }
    return explain_nulls(part, reasons)


def database_part(health: Mapping[str, Any]) -> dict[str, Any]:
    """``state`` is ok, away, unwritable, slow or unknown."""
    part = {
        "state": health.get("state", "unknown"),
        "detail": health.get("detail") or "",
        "since_at_ms": health.get("since_at_ms"),
    }
    return explain_nulls(part, {"since_at_ms": "no trouble"})

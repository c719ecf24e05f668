"""Does the server serve, and what does it say of memory, persistence and replicas? In one round trip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis

from . import durability
from .faults import word_for

_SECTIONS = ("memory", "persistence", "server", "replication")


def read_health(client: redis.Redis) -> dict[str, Any]:
    """``state`` is ok or one of the words of ``StoreUnavailable``; never raises."""
    try:
        *sections, config = _ask(client, *_SECTIONS)
    except (redis.RedisError, OSError) as exc:
        return {"state": word_for(exc), "detail": str(exc)[:200]}
    memory, persistence, server, replication = sections
    limit = int(memory.get("maxmemory", 0)) or None
    state, detail = _find_fault(client, memory, persistence, replication)
    return {
        "state": state,
        "detail": detail,
        "used_bytes": int(memory["used_memory"]),
        "max_bytes": limit,
        "policy": memory.get("maxmemory_policy"),
        "version": server.get("valkey_version") or server.get("redis_version"),
        "aof": bool(int(persistence.get("aof_enabled", 0))),
        "durability": durability.boundary_of(persistence, config),
        "replicas": _online_replicas(replication),
    }


def read_durability(client: redis.Redis) -> str:
    """The boundary that the server's own settings amount to, now.

    Raises:
        redis.RedisError: it does not answer.
    """
    persistence, config = _ask(client, "persistence")
    return durability.boundary_of(persistence, config)


def _ask(client: redis.Redis, *sections: str) -> list[Any]:
    """The sections of INFO, and appendfsync: None where CONFIG is denied, as a managed server often does."""
    with client.pipeline(transaction=False) as pipe:
        for section in sections:
            pipe.info(section)
        pipe.config_get("appendfsync")
        *found, config = pipe.execute(raise_on_error=False)
    for part in found:
        if isinstance(part, Exception):
            raise part
    if isinstance(config, Exception):
        return [*found, None]
    named = {_text(name): _text(value) for name, value in config.items()}
    return [*found, named.get("appendfsync")]


def _find_fault(
    client: redis.Redis,
    memory: Mapping[str, Any],
    persistence: Mapping[str, Any],
    replication: Mapping[str, Any],
) -> tuple[str, str]:
    limit = int(memory.get("maxmemory", 0))
    if replication.get("role") == "slave":
        return "readonly", "the server is a replica"
    if persistence.get("loading"):
        return "loading", "the server is loading its data"
    if persistence.get("aof_last_write_status", "ok") != "ok":
        return "readonly", "the append-only file cannot be written"
    if persistence.get("rdb_last_bgsave_status", "ok") != "ok" and _stops_on_failed_save(client):
        return "readonly", "the last snapshot failed, so writes are refused"
    if limit and int(memory["used_memory"]) >= limit:
        return "full", "used memory is at maxmemory"
    return "ok", ""


def _stops_on_failed_save(client: redis.Redis) -> bool:
    found: dict[str, str] = {}
    try:
        for name in ("save", "stop-writes-on-bgsave-error"):
            found |= {_text(key): _text(value) for key, value in client.config_get(name).items()}
    except (redis.RedisError, OSError):
        return False  # what it refuses is seen when it refuses it
    return bool(found.get("save")) and found.get("stop-writes-on-bgsave-error") == "yes"


def _online_replicas(replication: Mapping[str, Any]) -> int:
    """Those that have their first copy and follow on; one that still loads it confirms nothing."""
    rows = [row for name, row in replication.items() if name.startswith("slave") and isinstance(row, Mapping)]
    return sum(row.get("state") == "online" for row in rows)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

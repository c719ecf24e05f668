"""Is this installation sound? Says what it looked at, what it found and what would mend it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from ...actions.gate import open_gate, redis_now_ms
from ...actions.rekey_payloads import read_needed
from ...exceptions import StoreUnavailable
from ...store import Store
from ...store.durability import find_unmet
from ...store.snapshots import WORKER_LIVE_MS

SKEW_LIMIT_MS = 1_000
GAUGES = ("depth", "delayed", "in_flight", "bytes", "cost_ms")
#: Counters that may rise without a gauge's moving.
AT_THE_DOOR = ("offered", "refused", "refused_by")


@dataclass(frozen=True, slots=True)
class Finding:
    """``level`` is ok, note or fault; a fault makes the command end with 1."""

    level: str
    subject: str
    text: str


class Command(BaseCommand):
    help = "Check Redis, database, clocks, policies, workers, and recount what the gate holds."

    def handle(self, *args: Any, **options: Any) -> None:
        store = open_gate()
        findings = []
        try:
            for check in (check_redis, check_clock, check_policies, check_workers, check_counts, check_keys):
                findings += list(check(store))
        except StoreUnavailable as fault:
            findings.append(Finding("fault", "redis", f"{fault}; check SLUICEGATE_REDIS_URL"))
        findings += list(check_database())
        for finding in findings:
            self.stdout.write(f"{finding.level:<6}{finding.subject:<11}{finding.text}")
        faults = sum(finding.level == "fault" for finding in findings)
        if faults:
            raise CommandError(f"{faults} of {len(findings)} checks found a fault")


def check_redis(store: Store) -> Iterator[Finding]:
    health = store.health()
    if health["state"] != "ok":
        yield Finding("fault", "redis", f"{health['state']}: {health['detail']}")
        return
    yield Finding("ok", "redis", f"version {health['version']}, {health['used_bytes']:,} bytes used")
    if health["policy"] != "noeviction":
        text = f"maxmemory-policy is {health['policy']}: jobs can be evicted; set noeviction"
        yield Finding("fault", "redis", text)
    if not health["max_bytes"]:
        yield Finding("note", "redis", "no maxmemory: it fills the machine before it refuses; set one")
    unmet = find_unmet(settings.SLUICEGATE_DURABILITY, health)
    if unmet:
        yield Finding("fault", "durability", unmet)
    else:
        yield Finding("ok", "durability", f"acceptance is {health['durability']}")
    if not health["aof"]:
        yield Finding("note", "redis", "append-only file off: a restart loses what waits; set appendonly yes")


def check_clock(store: Store) -> Iterator[Finding]:
    began = time.time()
    skew_ms = redis_now_ms(store) - (began + time.time()) / 2 * 1000
    level = "note" if abs(skew_ms) > SKEW_LIMIT_MS else "ok"
    yield Finding(
        level, "clock", f"Redis is {skew_ms:+.0f} ms from this machine (the gate uses Redis's clock)"
    )


def check_policies(store: Store) -> Iterator[Finding]:
    policies = store.read_policies()
    if "normal" not in policies:
        yield Finding(
            "fault", "policies", "none for normal: nothing is admitted under bounds; start the monitor"
        )
        return
    for queue, policy in sorted(policies.items()):
        if not any(policy.get(bound) for bound in ("max_count", "max_bytes", "max_cost_ms", "max_wait_s")):
            yield Finding("note", "policies", f"{queue} has no bound")
    yield Finding("ok", "policies", ", ".join(f"{q} v{p['version']}" for q, p in sorted(policies.items())))


def check_workers(store: Store) -> Iterator[Finding]:
    snapshot = store.snapshot()
    for worker in snapshot["workers"]:
        silent_ms = snapshot["now_ms"] - worker["beat_at_ms"]
        level = "ok" if silent_ms < WORKER_LIVE_MS else "note"
        text = f"{worker['name']}: {worker['slots']} slots, heartbeat {silent_ms / 1000:.1f} s ago"
        yield Finding(level, "workers", text)
    for queue, row in sorted(snapshot["queues"].items()):
        if row["depth"] and not row["consumers"]:
            yield Finding("note", "workers", f"{queue} has {row['depth']} waiting and no live consumer")


def _figures(row: Mapping[str, Any]) -> list[Any]:
    """Equal twice only if nothing came, began or ended between: a gauge alone may be up and down again."""
    moved = {name: n for name, n in row["totals"].items() if name not in AT_THE_DOOR}
    return [*(row[gauge] for gauge in GAUGES), moved]


def check_counts(store: Store) -> Iterator[Finding]:
    """Twice with the same answer, or not at all: while work goes on the two reads are not of one moment."""
    for queue in sorted(store.read_policies()):
        for _ in range(5):
            before = store.snapshot()["queues"][queue]
            counted = store.recount()[queue]
            after = store.snapshot()["queues"][queue]
            if _figures(before) == _figures(after):
                off = {g: (after[g], counted[g]) for g in GAUGES if after[g] != counted[g]}
                text = (
                    f"{queue}: counters agree with a recount" if not off else f"{queue}: shown, counted {off}"
                )
                yield Finding("fault" if off else "ok", "counts", text)
                break
        else:
            yield Finding("note", "counts", f"{queue}: too busy to recount; run it again when it is quieter")


def check_keys(store: Store) -> Iterator[Finding]:
    """Which keys are in use, and how many payloads still need another than the first."""
    found = read_needed(store)
    ids = found["ids"]
    if not ids and not found["needed"]:
        yield Finding("ok", "payloads", "not encrypted (SLUICEGATE_PAYLOAD_KEYS is not set)")
        return
    if ids:
        others = f"; also opens {', '.join(ids[1:])}" if ids[1:] else ""
        yield Finding("ok", "payloads", f"encrypted with key {ids[0]}{others}")
    for key, number in sorted(found["needed"].items()):
        if key not in ids:
            yield Finding(
                "fault", "payloads", f"{number} need key {key}, which is not configured here; add it"
            )
        elif key != ids[0]:
            text = f"{number} still need key {key}; it may go once they are drained, or after privacy rekey"
            yield Finding("note", "payloads", text)
    if ids and found["clear"]:
        yield Finding("note", "payloads", f"{found['clear']} are stored in clear; run privacy rekey")


def check_database() -> Iterator[Finding]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        yield Finding("ok", "database", f"{connection.vendor} answers")
    except DatabaseError as fault:
        yield Finding("fault", "database", f"{fault}; check SLUICEGATE_DATABASE_URL")

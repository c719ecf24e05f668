"""What does every queue hold and has it done? A snapshot, read from the reply of its script."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

from ..states import CREDITS, DEFAULT_QUEUE, TICKETS, TOTALS
from .replies import as_numbers, as_rows

#: A worker whose last heartbeat is longer ago consumes nothing.
WORKER_LIVE_MS = 10_000
#: What a queue holds, and a tenant in it.
GAUGES = ("depth", "delayed", "in_flight", "bytes", "cost_ms", "parked", "spilled", "spilled_bytes")


def read_snapshot(raw: Mapping[str, Any]) -> dict[str, Any]:
    """What snapshot.lua replied, with its names; times in ms by Redis's clock, None where unknown."""
    now = raw["now"]
    policies = {queue: json.loads(document) for queue, document in dict(raw["policies"] or {}).items()}
    workers = [_worker(row) for row in as_rows(raw["workers"])]
    # A worker that consumes a queue without a policy serves the default queue.
    served = {w["name"]: {q if q in policies else DEFAULT_QUEUE for q in w["queues"]} for w in workers}
    alive = [w for w in workers if now - w["beat_at_ms"] < WORKER_LIVE_MS]
    crews: Counter[tuple[str, ...]] = Counter()
    for w in alive:
        crews[tuple(sorted(served[w["name"]]))] += w["slots"]
    queues = {
        name: _queue(row, [w for w in alive if name in served[w["name"]]])
        for name, row in dict(raw["queues"] or {}).items()
    }
    suspended = set(dict(raw["suspended"] or {}))
    spool = raw["spool"]
    return {
        "now_ms": now,
        "queues": queues,
        "tenants": [_tenant(row, suspended) for row in as_rows(raw["tenants"])],
        "workers": workers,
        "crews": [{"queues": list(names), "slots": slots} for names, slots in crews.items()],
        "modes": read_modes(dict(raw["modes"] or {}), dict(raw["mode_since"] or {})),
        "policies": policies,
        "downstreams": [_downstream(row) for row in as_rows(raw["downstreams"])],
        "holds": [json.loads(text) for text in as_rows(raw["holds"]) if text],
        "quarantine_spool": {"count": spool["count"], "oldest_at_ms": spool["oldest"] or None},
    }


def _queue(row: Mapping[str, Any], live: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``live``: the workers that serve it now."""
    totals = as_numbers(row["totals"])
    return {
        **_gauges(totals),
        "totals": _counters(totals),
        "oldest_eligible_at_ms": row["oldest"] or None,
        "next_due_at_ms": row["next_due"] or None,
        "set_aside": dict(row["set_aside"] or {}),
        "inlet": row["inlet"],
        "consumers": len(live),
        "slots": sum(w["slots"] for w in live),
        "wait_bins": {int(k): int(v) for k, v in dict(row["waits"] or {}).items()},
        "service_bins": {int(k): int(v) for k, v in dict(row["services"] or {}).items()},
        "goodput": int(totals.get("goodput", 0)),
        "spill_oldest_at_ms": row["spill_oldest"] or None,
        "blocked_keys": [_blocked_key(found) for found in as_rows(row["blocked_keys"])],
        "blocked_keys_known": row["blocked_keys_known"],
        "service_ms_sum": int(totals.get("service_ms", 0)),
        "service_n": int(totals.get("service_n", 0)),
        "stale_settles": int(totals.get("stale_settles", 0)),
        "tombstone_hits": int(totals.get("tombstone_hits", 0)),
        "tenants_known": row["tenants_known"],
        "held": int(row["held"]),
        "held_cost_ms": int(row["held_cost_ms"]),
        "credits": {name: int(totals.get(f"credits_{name}", 0)) for name in CREDITS},
        "producers": row["producers"],
        "tickets": {
            "line": row["tickets_line"],
            "called": row["tickets_called"],
            **{name: int(totals.get(f"tickets_{name}", 0)) for name in TICKETS},
        },
        "blocked_ms": int(totals.get("blocked_ms", 0)),
        "model": as_numbers(row["model"]),
    }


def _tenant(row: Mapping[str, Any], suspended: Set[str]) -> dict[str, Any]:
    own = as_numbers(row["totals"])
    return {
        "queue": row["queue"],
        "tenant": row["tenant"],
        **_counters(own),
        **_gauges(own),
        "oldest_eligible_at_ms": row["oldest"] or None,
        "suspended": row["tenant"] in suspended,
    }


def _gauges(row: Mapping[str, float]) -> dict[str, int]:
    return {name: int(row.get(name, 0)) for name in GAUGES}


def _blocked_key(row: Mapping[str, Any]) -> dict[str, Any]:
    size, _, rest = str(row["member"]).partition("|")
    return {
        "tenant": rest[: int(size)],
        "key": rest[int(size) + 1 :],
        "holder": row["holder"],
        "holder_state": row["state"] or None,
        "holder_epoch": row["epoch"] or None,
        "holder_worker": row["worker"] or None,
        "holder_since_at_ms": row["since"] or None,
        "waiting": row["waiting"],
        "oldest_at_ms": row["oldest"],
    }


def _counters(row: Mapping[str, float]) -> dict[str, Any]:
    refused_by = {name[8:]: int(value) for name, value in row.items() if name.startswith("refused:")}
    return {**{name: int(row.get(name, 0)) for name in TOTALS}, "refused_by": refused_by}


def read_modes(details: Mapping[str, str], since: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {
        scope: {**json.loads(document), "since_at_ms": int(since[scope]) if scope in since else None}
        for scope, document in details.items()
    }


def _downstream(row: Mapping[str, Any]) -> dict[str, Any]:
    settings, found = json.loads(row["settings"]), as_numbers(row["limit"])
    standing = min(settings["max"], max(settings["min"], found.get("limit", settings["initial"])))
    return {
        "name": row["name"],
        **settings,
        "limit": standing,
        "in_flight": row["in_flight"],
        "mean_ms": found.get("mean_ms"),
        "changed_at_ms": int(found["changed"]) if "changed" in found else None,
        **{name: int(found.get(name, 0)) for name in ("answered", "dropped", "cuts", "raises")},
        "latency_bins": {int(k): int(v) for k, v in dict(row["latencies"] or {}).items()},
        "gated_bins": {int(k): int(v) for k, v in dict(row["gated"] or {}).items()},
    }


def _worker(row: Mapping[str, Any]) -> dict[str, Any]:
    about = json.loads(row["about"]) if row["about"] else {}
    told = {name: about.get(name) for name in ("host", "pid", "pool", "started_at_ms")}
    lists = {name: about.get(name) or [] for name in ("queues", "held")}
    slots = about.get("slots") or 0
    return {"name": row["name"], "beat_at_ms": row["beat"], "slots": slots, **told, **lists}

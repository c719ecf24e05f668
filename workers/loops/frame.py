"""What does one frame say? A pure function of past snapshots and of what the database knew last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..alerts.measures import WHOLE_GATE, quarantine_value, queue_value
from ..forecast.drain import Outlook, Rules, band, drain_facts, forecast, one_slot_fewer
from ..forecast.fullness import nearest_bound
from ..forecast.load import Load, read_load
from ..forecast.notices import find_notices
from ..forecast.promise import promise_facts
from ..forecast.queue_state import Facts, full_bound, queue_state
from ..forecast.verdict import Verdict, give_verdict
from ..metrics.history import History
from ..metrics.objective import Point, Promises, attainment
from ..metrics.percentiles import percentiles
from ..metrics.rates import RATE_WINDOW_MS, difference, queue_rates, sum_rates, unknown_rates
from ..metrics.shares import completion_shares
from ..modes.effect import (
    admits,
    bounds_in_force,
    downstream_share,
    full_bounds,
    in_force,
    saturated_share,
)
from ..modes.redis_health import redis_failed
from ..states import CREDITS, TICKETS, TOTALS
from .downstreams import calls_through, downstream_rows, live_limits, set_aside_rows

VERDICT_HOLD_MS = 5_000  # its numbers change at most this often; its wording with the state
WORKER_LIVE_MS = 10_000  # the store counts consumers by the same
WORKER_GONE_MS = 60_000
TENANT_WINDOW_MS = 60_000
EVENTS_SHOWN = 20
TENANTS_SHOWN = 50  # rows of a queue and a tenant; each is half a KiB, to every viewer, every second
BINS_EVERY_S = 10  # the bins span a minute: each second's would be six times the same
TENANT_RATES = ("offered", "accepted", "refused", "succeeded")


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What the database said last; each may be behind, none holds the sampler up."""

    alerts: Sequence[Mapping[str, Any]] = ()
    last_alert_at_ms: int | None = None
    quarantine: Mapping[str, Any] | None = None  # count, bytes, oldest_at_ms, causes
    events: Sequence[Mapping[str, Any]] = ()
    promises: Sequence[Point] = ()  # from before this monitor began to watch
    loss: Mapping[str, Any] | None = None  # the newest loss of Redis's data, of the last 24 h
    alerts_known: bool = False  # by the alerter itself, though nothing could be read
    unknown: str = ""  # why, while nothing could be read
    health: Mapping[str, Any] = field(default_factory=dict)  # DatabaseHealth.current()


@dataclass(frozen=True, slots=True)
class Context:
    installation: str
    gate: str
    seq: int
    bin_value: Callable[[int], float]
    redis: Mapping[str, Any]  # store.health(), with since_at_ms
    facts: DatabaseFacts = field(default_factory=DatabaseFacts)
    promises: Promises = field(default_factory=Promises)
    sampled_ago_ms: int = 0
    wish: str = ""  # the durability that was asked for


@dataclass(frozen=True, slots=True)
class Memory:
    """What one frame must know of the one before."""

    states: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # queue -> (state, since ms)
    verdict: Verdict | None = None
    verdict_key: tuple[Any, ...] = ()
    verdict_at_ms: int = 0
    noticed: Mapping[str, int] = field(default_factory=dict)  # kind of a notice -> since ms


def build_frame(history: History, context: Context, memory: Memory) -> tuple[dict[str, Any], Memory]:
    """The frame of the latest snapshot, and what to remember for the next one."""
    snapshot = history.latest
    if snapshot is None:
        raise ValueError("a frame needs a snapshot")
    now_ms = int(snapshot["now_ms"])
    policies, modes = snapshot["policies"], snapshot["modes"]
    names = sorted(snapshot["queues"], key=lambda name: queue_order(name, policies.get(name, {})))
    total_slots = live_slots(snapshot)
    loads = [x for name in names if (x := read_load(history, name, bin_value=context.bin_value)) is not None]
    rules = rules_of(snapshot)
    outlooks = forecast(loads, rules, total_slots=total_slots)
    fewer = one_slot_fewer(loads, rules, total_slots=total_slots)
    mode, entry = in_force(modes, "*", now_ms=now_ms)
    mode_by, mode_reason = (entry or {}).get("by"), (entry or {}).get("reason") or ""
    failed = redis_failed(context.redis, now_ms=now_ms)
    if failed:
        mode, mode_by, mode_reason, entry = "failed", "monitor", failed, None
    rows, states = [], {}
    for load in loads:
        row = queue_row(
            history,
            load,
            outlooks[load.name],
            fewer[load.name],
            rule=rules[load.name],
            total_slots=total_slots,
            failed=failed,
            context=context,
        )
        before = memory.states.get(load.name)
        since = before[1] if before is not None and before[0] == row["state"] else now_ms
        states[load.name] = (row["state"], since)
        row["state_since_at_ms"] = since
        rows.append(row)
    shares = completion_shares(history)
    for row in rows:
        row["share"] = shares[row["name"]]
    tenants, left_out = largest(tenant_rows(history, loads, total_slots=total_slots))
    left_out += sum(unseen_tenants(snapshot).values())
    verdict = give_verdict(
        rows,
        mode=mode,
        mode_reason=mode_reason,
        redis_state=str(context.redis.get("state", "unknown")),
        redis_detail=str(context.redis.get("detail") or ""),
        offerers=find_offerers(tenants, {row["name"]: row["rates"].get("offered") for row in rows}),
        now_ms=now_ms,
    )
    verdict_key = (
        mode,
        context.redis.get("state"),
        verdict.shape,
        # The sentence and the row must not name different directions of one queue.
        *sorted((q["name"], q["state"], _direction(q)) for q in rows),
    )
    if (
        memory.verdict is not None
        and memory.verdict_key == verdict_key
        and now_ms - memory.verdict_at_ms < VERDICT_HOLD_MS
    ):
        verdict, verdict_at_ms = memory.verdict, memory.verdict_at_ms
    else:
        verdict_at_ms = now_ms
    notices = find_notices(
        redis=context.redis,
        database=context.facts.health,
        uncopied=int((snapshot.get("quarantine_spool") or {}).get("count") or 0),
        wish=context.wish,
        loss=context.facts.loss,
    )
    noticed = {
        notice.kind: notice.since_at_ms or memory.noticed.get(notice.kind) or now_ms for notice in notices
    }
    held = quarantine_part(context.facts, snapshot, now_ms=now_ms)
    unknown: dict[str, str] = {}
    until_ms = (entry or {}).get("until_at_ms")
    since_ms = failed_since(context, now_ms) if failed else (entry or {}).get("since_at_ms")
    if since_ms is None:
        unknown["mode_since_at_ms"] = "never changed"
    if until_ms is None:
        unknown["mode_until_at_ms"] = "no end is set"
    frame = {
        "seq": context.seq,
        "at_ms": now_ms,
        "installation": context.installation,
        "gate": context.gate,
        "mode": mode,
        "mode_since_at_ms": since_ms,
        "mode_reason": mode_reason,
        "mode_by": mode_by,
        "mode_automatic": bool(failed or (entry or {}).get("automatic")),
        "mode_until_at_ms": until_ms,
        "mode_pinned": bool((entry or {}).get("pinned")),
        "mode_leaves": say_leaves(mode, entry, failed=bool(failed)),
        "sampled_ago_ms": max(0, context.sampled_ago_ms),
        "verdict": verdict.as_dict(),
        "redis": redis_part(context.redis),
        "database": database_part(context.facts.health),
        "notices": [notice.as_dict(noticed[notice.kind]) for notice in notices],
        "alerts": alerts_part(context.facts, rows, held),
        "quarantine": held,
        "events": list(context.facts.events)[:EVENTS_SHOWN],
        "buffers": sum_buffers(snapshot, rows),
        "totals_all": {"rates": sum_rates([row["rates"] for row in rows])},
        "queues": rows,
        "tenants": tenants,
        "tenants_left_out": left_out,
        "downstreams": downstream_rows(history, bin_value=context.bin_value),
        "workers": worker_rows(snapshot),
        "unknown": unknown,
    }
    return frame, Memory(states, verdict, verdict_key, verdict_at_ms, noticed)


def _direction(row: Mapping[str, Any]) -> str:
    """What the sentence may say of where the queue goes; nothing while it is in bounds."""
    return "" if row["state"] in ("in_bounds", "closed") else str(row["drain"]["state"])


def queue_order(name: str, policy: Mapping[str, Any]) -> tuple[Any, ...]:
    """Strict ranks first, then the heavier; it never changes by itself."""
    rank = policy.get("strict_rank")
    return (rank is None, rank or 0, -float(policy.get("weight") or 0), name)


def live_slots(snapshot: Mapping[str, Any]) -> float:
    now_ms = int(snapshot["now_ms"])
    live = [w for w in snapshot["workers"] if now_ms - int(w["beat_at_ms"] or 0) < WORKER_LIVE_MS]
    return float(sum(int(w.get("slots") or 0) for w in live))


def rules_of(snapshot: Mapping[str, Any]) -> dict[str, Rules]:
    """Each queue's place in the dispatch, with its downstream's limit as it stands."""
    limits = live_limits(snapshot)
    return {
        name: dispatch_rules(snapshot["policies"].get(name, {}), limits=limits, row=row)
        for name, row in snapshot["queues"].items()
    }


def dispatch_rules(
    policy: Mapping[str, Any],
    *,
    limits: Mapping[str, float] | None = None,
    row: Mapping[str, Any] | None = None,
) -> Rules:
    weight, downstream = policy.get("weight"), policy.get("downstream")
    return Rules(
        strict_rank=policy.get("strict_rank"),
        weight=1.0 if weight is None else float(weight),
        reserved=float(policy.get("reserved_slots") or 0),
        cap=policy.get("max_in_flight"),
        ceiling_s=policy.get("age_ceiling_s"),
        downstream=downstream,
        through=calls_through(downstream, limits or {}, row or {}),
    )


def queue_row(
    history: History,
    load: Load,
    outlook: Outlook,
    fewer: Outlook,
    *,
    rule: Rules,
    total_slots: float,
    failed: str,
    context: Context,
) -> dict[str, Any]:
    snapshot = history.latest
    assert snapshot is not None
    now_ms = int(snapshot["now_ms"])
    queue, policy = snapshot["queues"][load.name], snapshot["policies"].get(load.name, {})
    mode, entry = in_force(snapshot["modes"], load.name, now_ms=now_ms)
    if failed:
        mode, entry = "failed", {"since_at_ms": failed_since(context, now_ms), "reason": failed}
    model = queue.get("model") or {}
    bounds, in_mode = full_bounds(policy, model=model), bounds_in_force(policy, mode, model=model)
    depth, delayed = int(queue["depth"]), int(queue["delayed"])
    spilled = int(queue.get("spilled") or 0)
    # What is spilled is counted as delayed, and stands outside the queue's bounds.
    held, oldest_age_ms = depth + delayed - spilled, round(load.age_s * 1000)
    facts = Facts(
        depth=load.depth,
        held=held,
        bytes=int(queue["bytes"]),
        cost_ms=int(queue["cost_ms"]),
        oldest_age_ms=oldest_age_ms,
        consumers=load.consumers,
        guard_age_s=policy.get("guard_age_s"),
        age_ceiling_s=policy.get("age_ceiling_s"),
        bounds=in_mode,
        admits=admits(policy, mode),
        next_bytes=int(queue["bytes"]) / held if held else 0.0,
        next_cost_ms=int(queue["cost_ms"]) / depth if depth else 0.0,
        spill_full=is_spill_full(queue, policy),
    )
    fill = nearest_bound(
        load,
        outlook,
        bounds=in_mode if facts.admits else bounds,
        held=facts.held,
        held_bytes=facts.bytes,
        cost_ms=facts.cost_ms,
    )
    rates = queue_rates(history, load.name)
    totals = {name: int(queue["totals"].get(name) or 0) for name in TOTALS}
    row: dict[str, Any] = {
        "name": load.name,
        "mode": mode,
        "mode_since_at_ms": (entry or {}).get("since_at_ms"),
        "mode_reason": (entry or {}).get("reason") or "",
        "state": queue_state(facts),
        "full_bound": full_bound(facts) if facts.admits else "",
        "depth": depth,
        "held": load.held,
        "delayed": delayed,
        "spilled": spilled,
        "spill": spill_part(queue, policy, now_ms=now_ms),
        "in_flight": int(queue["in_flight"]),
        "bytes": int(queue["bytes"]),
        "cost_ms": int(queue["cost_ms"]),
        "oldest_age_ms": oldest_age_ms,
        "next_due_at_ms": queue.get("next_due_at_ms"),
        "inlet": int(queue.get("inlet") or 0),
        "consumers": load.consumers,
        "slots": int(load.slots),
        "guard_age_s": policy.get("guard_age_s"),
        "age_ceiling_s": policy.get("age_ceiling_s"),
        "weight": policy.get("weight"),
        "strict_rank": policy.get("strict_rank"),
        "reserved_slots": int(policy.get("reserved_slots") or 0),
        "max_in_flight": policy.get("max_in_flight"),
        "saturated_share": saturated_share(policy),
        "parked": int(queue.get("parked") or 0),
        "set_aside": set_aside_rows(queue),
        "downstream": policy.get("downstream"),
        "downstream_share": round(downstream_share(policy, model), 3),
        "promise": promise_facts(
            policy,
            model,
            slots=load.slots,
            consumers=load.consumers,
            mean_service_ms=load.mean_service_ms,
            service_from=load.service_from,
        ),
        "owner": policy.get("owner"),
        "rate_limits": list(policy.get("rate_limits") or []),
        "credits": {
            **dict.fromkeys(CREDITS, 0),
            **(queue.get("credits") or {}),
            "producers": int(queue.get("producers") or 0),
        },
        "waiting_room": waiting_room_part(queue, policy),
        "blocked_ms": int(queue.get("blocked_ms") or 0),
        "buffers": queue_buffers(snapshot, load.name),
        "policy_version": policy.get("version"),
        "bounds": with_reasons(bounds, "no bound"),
        "bounds_in_force": with_reasons(in_mode, "no bound"),
        "totals": {**totals, "refused_by": dict(queue["totals"].get("refused_by") or {})},
        "anomalies": {
            "duplicate_deliveries": totals["redelivered"],
            "tombstone_hits": int(queue.get("tombstone_hits") or 0),
            "ambiguous_completions": int(queue.get("stale_settles") or 0),
        },
        "rates": rates,
        "wait_ms": percentiles(
            queue.get("wait_bins") or {},
            bin_value=context.bin_value,
            nothing="nothing started in the last 60 s",
        ),
        "service_ms": percentiles(
            queue.get("service_bins") or {},
            bin_value=context.bin_value,
            nothing="nothing done in the last 60 s",
        ),
        "objective": attainment(policy, context.promises, load.name),
        "blocked_keys": key_rows(queue, now_ms=now_ms),
        "blocked_keys_known": int(queue.get("blocked_keys_known") or 0),
        "on_full": policy.get("on_full") or "reject",
        "drain": drain_part(load, outlook, fewer, rule=rule, total_slots=total_slots, fill=fill),
    }
    reasons = {
        "mode_since_at_ms": "never changed",
        "next_due_at_ms": "nothing is delayed",
        "guard_age_s": "no guard is set",
        "age_ceiling_s": "no ceiling is set",
        "weight": "no policy",
        "strict_rank": "shares by weight",
        "max_in_flight": "no cap",
        "waiting_room": "the policy has none",
        "objective": "no completion objective is declared",
        "spill": "nothing is spilled, and the policy spills nothing",
        "downstream": "no downstream is named",
        "promise": "no max_wait_s is set",
        "policy_version": "no policy",
    }
    if (now_ms // 1000) % BINS_EVERY_S == 0:
        row["wait_bins"] = {str(key): int(count) for key, count in (queue.get("wait_bins") or {}).items()}
    row["unknown"] = {name: reason for name, reason in reasons.items() if row[name] is None}
    return row


def is_spill_full(queue: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Whether jobs are spilled and no other of the usual size would find room among them."""
    count, size = int(queue.get("spilled") or 0), int(queue.get("spilled_bytes") or 0)
    if not count or policy.get("on_full") != "spill":
        return False
    most, most_bytes = policy.get("spill_max_count"), policy.get("spill_max_bytes")
    return (most is not None and count >= most) or (
        most_bytes is not None and size + size / count > most_bytes
    )


def spill_part(queue: Mapping[str, Any], policy: Mapping[str, Any], *, now_ms: int) -> dict[str, Any] | None:
    """What stands outside the queue's bounds until there is room; None where the policy has no spill."""
    count = int(queue.get("spilled") or 0)
    if not count and policy.get("on_full") != "spill":
        return None
    oldest = queue.get("spill_oldest_at_ms")
    bounds = {name: policy.get(f"spill_max_{name}") for name in ("count", "bytes", "age_s")}
    return {
        "count": count,
        "bytes": int(queue.get("spilled_bytes") or 0),
        "oldest_age_ms": 0 if oldest is None else max(0, now_ms - int(oldest)),
        "bounds": with_reasons(bounds, "no bound"),
    }


def key_rows(queue: Mapping[str, Any], *, now_ms: int) -> list[dict[str, Any]]:
    """The ordering keys that have held work back longest: who holds each, since when, and how many wait."""
    rows = []
    for found in queue.get("blocked_keys") or []:
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
        reasons = {
            "epoch": "the first of the key has no lease",
            "worker": "the first of the key has no lease",
            "held_ms": "the record of the key's first job is gone",
        }
        unknown = {name: reason for name, reason in reasons.items() if row[name] is None}
        rows.append({**row, "unknown": unknown} if unknown else row)
    return rows


HOLDER_PHASES = {"waiting": "waiting", "delayed": "delayed", "leased": "in flight"}


def waiting_room_part(queue: Mapping[str, Any], policy: Mapping[str, Any]) -> dict[str, Any] | None:
    """Who waits in line with a ticket; None for a queue without a waiting room."""
    if policy.get("waiting_room_max") is None:
        return None
    tickets = {**dict.fromkeys(("line", "called", *TICKETS), 0), **(queue.get("tickets") or {})}
    rate = (queue.get("model") or {}).get("service_rate_per_s")
    part: dict[str, Any] = {
        **tickets,
        "max": policy["waiting_room_max"],
        "slot_s": policy.get("waiting_room_slot_s"),
        "modeled_wait_s": round((tickets["line"] + 1) / rate, 1) if rate else None,
    }
    if part["modeled_wait_s"] is None:
        part["unknown"] = {"modeled_wait_s": "no service rate has been measured yet"}
    return part


def queue_buffers(snapshot: Mapping[str, Any], name: str) -> dict[str, int]:
    """Everything that stands between a producer and the end of a job of this queue, part by part.

    `blocked` waits for room outside the gate; the rest is accepted. What of the jobs in flight has started is
    as the workers' last heartbeats have it, and never more than is in flight.
    """
    queue = snapshot["queues"][name]
    started = sum(
        1
        for worker in snapshot["workers"]
        for job in worker.get("held") or ()
        if job.get("queue") == name and job.get("started_at_ms") is not None
    )
    in_flight = int(queue["in_flight"])
    running = min(in_flight, started)
    parts = {
        "blocked": sum(
            int((held.get("blocked") or {}).get(name) or 0) for held in snapshot.get("holds") or ()
        ),
        "spilled": int(queue.get("spilled") or 0),
        "ready": int(queue["depth"]),
        "delayed": int(queue["delayed"]),
        "reserved": in_flight - running,
        "running": running,
    }
    return {**parts, "sum": sum(parts.values())}


def sum_buffers(snapshot: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The same of all queues, and before them the requests that wait at the doors for their turn."""
    door = sum(int(held.get("door") or 0) for held in snapshot.get("holds") or ())
    names = ("blocked", "spilled", "ready", "delayed", "reserved", "running")
    parts = {"door": door, **{name: sum(row["buffers"][name] for row in rows) for name in names}}
    return {**parts, "sum": sum(parts.values())}


def drain_part(
    load: Load, outlook: Outlook, fewer: Outlook, *, rule: Rules, total_slots: float, fill: Any
) -> dict[str, Any]:
    edges = band(load, outlook)
    exact = outlook.state == "empty"
    part: dict[str, Any] = {
        "state": outlook.state,
        "reason": outlook.reason,
        "modeled": True,
        "seconds": _seconds(outlook.seconds),
        "low": 0.0 if exact else _seconds(edges[0] if edges else None),
        "high": 0.0 if exact else _seconds(edges[1] if edges else None),
        "full_in_s": _seconds(fill.seconds if fill else None),
        "full_by": fill.bound if fill else None,
        "inputs": {
            **drain_facts(load, outlook, rule=rule, total_slots=total_slots),
            "one_slot_fewer": fewer_part(fewer),
        },
    }
    why = outlook.reason or "not modeled"
    unknown = {name: why for name in ("seconds", "low", "high") if part[name] is None}
    if part["full_in_s"] is None:
        growing = outlook.state in ("growing", "stalled")
        unknown["full_in_s"] = "no bound comes nearer" if growing else f"not growing: {outlook.state}"
    if unknown:
        part["unknown"] = unknown
    return part


def fewer_part(fewer: Outlook) -> dict[str, Any]:
    part: dict[str, Any] = {"state": fewer.state, "seconds": _seconds(fewer.seconds)}
    if part["seconds"] is None:
        part["unknown"] = {"seconds": fewer.reason or fewer.state}
    return part


def with_reasons(values: Mapping[str, Any], reason: str) -> dict[str, Any]:
    unknown = {name: reason for name, value in values.items() if value is None}
    return {**values, "unknown": unknown} if unknown else dict(values)


def tenant_rows(history: History, loads: Sequence[Load], *, total_slots: float) -> list[dict[str, Any]]:
    """One row a queue and tenant; the share is of all slot time over the last minute."""
    snapshot, earlier = history.latest, history.reference(RATE_WINDOW_MS)
    assert snapshot is not None
    now_ms = int(snapshot["now_ms"])
    minute_ago = next(history.within(TENANT_WINDOW_MS), snapshot)
    span_ms = now_ms - int(minute_ago["now_ms"])
    mean_ms = {load.name: load.mean_service_ms for load in loads}
    before_5 = _by_tenant(earlier)
    before_60 = _by_tenant(minute_ago)
    unseen = unseen_tenants(snapshot)
    active: dict[str, int] = {}
    for row in snapshot["tenants"]:
        if (row["depth"] and not row.get("suspended")) or row["in_flight"]:
            active[row["queue"]] = active.get(row["queue"], 0) + 1
    rows = []
    for row in snapshot["tenants"]:
        key = (row["queue"], row["tenant"])
        oldest = row.get("oldest_eligible_at_ms")
        if earlier is None:
            rates = unknown_rates(TENANT_RATES, history.why_no_reference(RATE_WINDOW_MS))
        else:
            span_s = (now_ms - int(earlier["now_ms"])) / 1000
            rates = difference(before_5.get(key, {}), row, TENANT_RATES, span_s=span_s)
        share = _slot_share(
            before_60.get(key, {}), row, mean_ms.get(row["queue"]), span_ms=span_ms, slots=total_slots
        )
        sharers = 0 if unseen[row["queue"]] else active.get(row["queue"], 0)
        out: dict[str, Any] = {
            "tenant": row["tenant"],
            "queue": row["queue"],
            "rates": rates,
            "depth": int(row["depth"]),
            "delayed": int(row["delayed"]),
            "in_flight": int(row["in_flight"]),
            "bytes": int(row["bytes"]),
            "cost_ms": int(row["cost_ms"]),
            "share": share,
            "fair_share": round(1 / sharers, 4) if sharers else None,
            "oldest_age_ms": 0 if oldest is None else max(0, now_ms - int(oldest)),
            "suspended": bool(row.get("suspended")),
            "totals": {
                name: int(row.get(name) or 0) for name in ("offered", "accepted", "refused", "succeeded")
            },
        }
        why = "a sample looks at some of its tenants only" if unseen[row["queue"]] else "nobody waits or runs"
        reasons = {"share": "not enough samples yet", "fair_share": why}
        unknown = {name: reason for name, reason in reasons.items() if out[name] is None}
        if unknown:
            out["unknown"] = unknown
        rows.append(out)
    return rows


def unseen_tenants(snapshot: Mapping[str, Any]) -> Counter[str]:
    """How many tenants of each queue a sample has no row of: it looks at those that offered last."""
    seen = Counter(row["queue"] for row in snapshot["tenants"])
    known = {name: int(row.get("tenants_known") or 0) for name, row in snapshot["queues"].items()}
    return Counter({name: max(0, number - seen[name]) for name, number in known.items()})


def largest(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The rows that a frame has room for, by what they hold and offer; and how many it has none for."""
    order = sorted(rows, key=lambda r: (-(r["depth"] + r["in_flight"]), -(r["rates"].get("offered") or 0.0)))
    kept = {id(row) for row in order[:TENANTS_SHOWN]}
    return [row for row in rows if id(row) in kept], max(0, len(rows) - TENANTS_SHOWN)


def _by_tenant(snapshot: Mapping[str, Any] | None) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(row["queue"], row["tenant"]): row for row in snapshot["tenants"]} if snapshot else {}


def _slot_share(
    before: Mapping[str, Any], after: Mapping[str, Any], mean_ms: float | None, *, span_ms: int, slots: float
) -> float | None:
    if span_ms < 3_000 or slots <= 0:
        return None
    runs = sum(int(after.get(name) or 0) - int(before.get(name) or 0) for name in ("succeeded", "failed"))
    if runs <= 0:
        return 0.0
    return None if mean_ms is None else round(min(1.0, runs * mean_ms / (slots * span_ms)), 4)


def find_offerers(
    tenants: Sequence[Mapping[str, Any]], of_all: Mapping[str, float | None]
) -> dict[str, tuple[str, float]]:
    """Who offers most to each queue, with the share of what all offer; only where there is more than one."""
    offered: dict[str, list[tuple[float, str]]] = {}
    for row in tenants:
        rate = row["rates"].get("offered")
        if rate:
            offered.setdefault(row["queue"], []).append((rate, row["tenant"]))
    return {
        queue: (max(rows)[1], max(rows)[0] / max(of_all.get(queue) or 0.0, sum(rate for rate, _ in rows)))
        for queue, rows in offered.items()
        if len(rows) > 1
    }


def worker_rows(snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
    now_ms = int(snapshot["now_ms"])
    rows = []
    for worker in snapshot["workers"]:
        ago_ms = max(0, now_ms - int(worker["beat_at_ms"] or 0))
        state = "live" if ago_ms < WORKER_LIVE_MS else "silent" if ago_ms < WORKER_GONE_MS else "gone"
        row = {**worker, "beat_ago_ms": ago_ms, "state": state}
        held = []
        for job in worker.get("held") or []:
            item = dict(job)
            if item.get("started_at_ms") is None:
                item["unknown"] = {"started_at_ms": "reserved, not started"}
            held.append(item)
        row["held"] = held
        unknown = {
            name: "not told by the worker" for name in ("pid", "started_at_ms") if row.get(name) is None
        }
        if unknown:
            row["unknown"] = unknown
        rows.append(row)
    return sorted(rows, key=lambda row: str(row["name"]))


def redis_part(health: Mapping[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = {
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
    unknown = {name: reason for name, reason in reasons.items() if part[name] is None}
    return {**part, "unknown": unknown} if unknown else part


def database_part(health: Mapping[str, Any]) -> dict[str, Any]:
    """``state`` is ok, away, unwritable, slow or unknown."""
    part: dict[str, Any] = {
        "state": health.get("state", "unknown"),
        "detail": health.get("detail") or "",
        "since_at_ms": health.get("since_at_ms"),
    }
    return part if part["since_at_ms"] is not None else {**part, "unknown": {"since_at_ms": "no trouble"}}


def alerts_part(
    facts: DatabaseFacts, rows: Sequence[Mapping[str, Any]], held: Mapping[str, Any]
) -> dict[str, Any]:
    """Open alerts, each with what its measure is `now`: `value` is what it was when it fired."""
    why = "" if facts.alerts_known else facts.unknown
    part: dict[str, Any] = {
        "firing": None if why else len(facts.alerts),
        "items": [{**item, "now": value_now(item, rows, held)} for item in facts.alerts],
        "last_at_ms": facts.last_alert_at_ms,
    }
    unknown = {}
    if why:
        unknown["firing"] = why
    if part["last_at_ms"] is None:
        unknown["last_at_ms"] = facts.unknown or "none has fired"
    return {**part, "unknown": unknown} if unknown else part


def value_now(
    item: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], held: Mapping[str, Any]
) -> float | None:
    """What an alert's measure is in this frame; None where that is not known."""
    if item["measure"] in WHOLE_GATE:
        return quarantine_value(item["measure"], item["queue"] or "", held)
    row = next((row for row in rows if row["name"] == item["queue"]), None)
    return None if row is None else queue_value(item["measure"], row)


def quarantine_part(facts: DatabaseFacts, snapshot: Mapping[str, Any], *, now_ms: int) -> dict[str, Any]:
    """What the database holds and what still waits in Redis to be copied there."""
    spool = snapshot.get("quarantine_spool") or {}
    waiting, held = int(spool.get("count") or 0), facts.quarantine
    if held is None:
        why = facts.unknown or "not read yet"
        nulls = dict.fromkeys(("count", "bytes", "oldest_age_ms"))
        return {
            **nulls,
            "by_queue": None,
            "causes": [],
            "uncopied": waiting,
            "unknown": dict.fromkeys(nulls, why),
        }
    oldest = [at for at in (held.get("oldest_at_ms"), spool.get("oldest_at_ms")) if at is not None]
    return {
        "count": int(held["count"]) + waiting,
        "bytes": int(held["bytes"]),
        "oldest_age_ms": max(0, now_ms - int(min(oldest))) if oldest else 0,
        "by_queue": dict(held.get("by_queue") or {}),
        "causes": list(held.get("causes") or []),
        "uncopied": waiting,
    }


def say_leaves(mode: str, entry: Mapping[str, Any] | None, *, failed: bool) -> str | None:
    if failed:
        return "when Redis can be written again"
    if entry is None or mode == "normal":
        return None
    if entry.get("until") == "drained":
        return "when the backlog is gone"
    if entry.get("until_at_ms") is not None:
        return "at its end, or when changed"
    if entry.get("automatic"):
        return {
            "saturated": "when every queue is back under its low mark and guard for its hold time",
            "failed": "when the cause has been gone for the hold time",
        }.get(mode, "by itself")
    return "when changed by an operator"


def failed_since(context: Context, now_ms: int) -> int:
    return int(context.redis.get("since_at_ms") or now_ms)


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(max(0.0, value), 1)

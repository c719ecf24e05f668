"""What does the frame of the latest snapshot say, put together from its parts?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...forecast.drain import forecast, one_slot_fewer
from ...forecast.load import Load, read_load
from ...forecast.notices import Notice, find_notices
from ...metrics.history import History
from ...metrics.rates import refusal_rates, sum_rates
from ...metrics.reasons import null_reasons
from ...metrics.shares import completion_shares
from ...modes.effect import Mode
from .alerts import alerts_part
from .buffers import sum_buffers
from .dispatch import queue_order, rules_of
from .downstreams import downstream_rows
from .health import database_part, redis_part
from .inputs import EVENTS_SHOWN, Context, Memory
from .mode import NO_MODE, mode_part, redis_failure
from .quarantine import quarantine_part
from .queue import queue_row
from .sentence import choose_verdict
from .tenants import tenants_part
from .workers import live_slots, worker_rows


def build_frame(history: History, context: Context, memory: Memory) -> tuple[dict[str, Any], Memory]:
    """The frame of the latest snapshot, and what to remember for the next one."""
    snapshot = history.latest
    if snapshot is None:
        raise ValueError("a frame needs a snapshot")
    now_ms = int(snapshot["now_ms"])
    failure = redis_failure(context.redis, now_ms=now_ms)
    mode = mode_part(snapshot, failure=failure)
    total_slots = live_slots(snapshot)
    loads = _read_loads(history, context)
    rows = _queue_rows(history, loads, total_slots=total_slots, failure=failure, context=context)
    states = {}
    shares = completion_shares(history)
    for row in rows:
        state, since_ms = memory.states.get(row["name"], ("", now_ms))
        states[row["name"]] = (row["state"], since_ms if state == row["state"] else now_ms)
        row["state_since_at_ms"] = states[row["name"]][1]
        row["share"] = shares[row["name"]]
    tenants, left_out = tenants_part(history, loads, total_slots=total_slots)
    verdict, verdict_key, verdict_at_ms = choose_verdict(
        rows,
        tenants,
        mode=mode,
        redis=context.redis,
        refusals={row["name"]: refusal_rates(history, row["name"]) for row in rows},
        memory=memory,
        now_ms=now_ms,
    )
    notices = _find_notices(snapshot, context)
    noticed = {
        notice.kind: notice.since_at_ms or memory.noticed.get(notice.kind) or now_ms for notice in notices
    }
    held = quarantine_part(context.facts, snapshot, now_ms=now_ms)
    frame = {
        "seq": context.seq,
        "at_ms": now_ms,
        "installation": context.installation,
        "gate": context.gate,
        **mode,
        "sampled_ago_ms": max(0, context.sampled_ago_ms),
        "verdict": verdict.as_dict(),
        "redis": redis_part(context.redis),
        "database": database_part(context.facts.health),
        "notices": [notice.as_dict(noticed[notice.kind]) for notice in notices],
        "alerts": alerts_part(context.facts, mode["mode"], rows, held),
        "quarantine": held,
        "events": list(context.facts.events)[:EVENTS_SHOWN],
        "buffers": sum_buffers(snapshot, rows),
        "totals_all": {"rates": sum_rates([row["rates"] for row in rows])},
        "queues": rows,
        "tenants": tenants,
        "tenants_left_out": left_out,
        "downstreams": downstream_rows(history, bin_value=context.bin_value),
        "workers": worker_rows(snapshot),
        "unknown": null_reasons(mode, NO_MODE),
    }
    return frame, Memory(states, verdict, verdict_key, verdict_at_ms, noticed)


def _read_loads(history: History, context: Context) -> list[Load]:
    """The flow of every queue, in the order of the frame's rows."""
    snapshot = history.latest
    assert snapshot is not None
    names = sorted(snapshot["queues"], key=lambda name: queue_order(name, snapshot["policies"].get(name, {})))
    found = (read_load(history, name, bin_value=context.bin_value) for name in names)
    return [load for load in found if load is not None]


def _queue_rows(
    history: History, loads: Sequence[Load], *, total_slots: float, failure: Mode | None, context: Context
) -> list[dict[str, Any]]:
    snapshot = history.latest
    assert snapshot is not None
    rules = rules_of(snapshot)
    outlooks = forecast(loads, rules, total_slots=total_slots)
    fewer = one_slot_fewer(loads, rules, total_slots=total_slots)
    return [
        queue_row(
            history,
            load,
            outlooks[load.name],
            fewer[load.name],
            rule=rules[load.name],
            total_slots=total_slots,
            failure=failure,
            context=context,
        )
        for load in loads
    ]


def _find_notices(snapshot: Mapping[str, Any], context: Context) -> Sequence[Notice]:
    return find_notices(
        redis=context.redis,
        database=context.facts.health,
        uncopied=int((snapshot.get("quarantine_spool") or {}).get("count") or 0),
        wish=context.wish,
        loss=context.facts.loss,
    )

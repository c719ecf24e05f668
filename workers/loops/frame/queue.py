"""What does a frame say of one queue?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...forecast.drain import Outlook, Rules
from ...forecast.fullness import nearest_bound
from ...forecast.load import Load
from ...forecast.promise import promise_facts
from ...forecast.queue_state import Facts, full_bound, queue_state
from ...metrics.history import History
from ...metrics.objective import attainment
from ...metrics.percentiles import percentiles
from ...metrics.rates import queue_rates
from ...metrics.reasons import explain_bounds, null_reasons
from ...modes.effect import (
    Bounds,
    Mode,
    admits,
    bounds_in_force,
    downstream_share,
    full_bounds,
    saturated_share,
)
from ...states import CREDITS, TOTALS
from .blocked_keys import key_rows
from .buffers import queue_buffers
from .downstreams import set_aside_rows
from .drain import drain_part
from .inputs import Context
from .mode import find_mode
from .overflow import is_spill_full, spill_part, waiting_room_part

BINS_EVERY_S = 10  # the bins span a minute: each second's would be six times the same
UNKNOWN = {
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


def queue_row(
    history: History,
    load: Load,
    outlook: Outlook,
    fewer: Outlook,
    *,
    rule: Rules,
    total_slots: float,
    failure: Mode | None,
    context: Context,
) -> dict[str, Any]:
    snapshot = history.latest
    assert snapshot is not None
    now_ms = int(snapshot["now_ms"])
    queue, policy = snapshot["queues"][load.name], snapshot["policies"].get(load.name, {})
    mode, entry = find_mode(snapshot, load.name, failure=failure)
    model = queue.get("model") or {}
    bounds, in_mode = full_bounds(policy, model=model), bounds_in_force(policy, mode, model=model)
    facts = _read_facts(queue, policy, load, bounds=in_mode, mode=mode)
    fill = nearest_bound(
        load,
        outlook,
        bounds=in_mode if facts.admits else bounds,
        held=facts.held,
        held_bytes=facts.bytes,
        cost_ms=facts.cost_ms,
    )
    totals = {name: int(queue["totals"].get(name) or 0) for name in TOTALS}
    row: dict[str, Any] = {
        "name": load.name,
        "mode": mode,
        "mode_since_at_ms": entry.get("since_at_ms"),
        "mode_reason": entry.get("reason") or "",
        "state": queue_state(facts),
        "full_bound": full_bound(facts) if facts.admits else "",
        "depth": int(queue["depth"]),
        "held": load.held,
        "delayed": int(queue["delayed"]),
        "spilled": int(queue.get("spilled") or 0),
        "spill": spill_part(queue, policy, now_ms=now_ms),
        "in_flight": int(queue["in_flight"]),
        "bytes": facts.bytes,
        "cost_ms": facts.cost_ms,
        "oldest_age_ms": facts.oldest_age_ms,
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
        "admit_while_draining": bool(policy.get("admit_while_draining")),
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
        "bounds": explain_bounds(bounds),
        "bounds_in_force": explain_bounds(in_mode),
        "totals": {**totals, "refused_by": dict(queue["totals"].get("refused_by") or {})},
        "anomalies": {
            "duplicate_deliveries": totals["redelivered"],
            "tombstone_hits": int(queue.get("tombstone_hits") or 0),
            "ambiguous_completions": int(queue.get("stale_settles") or 0),
        },
        "rates": queue_rates(history, load.name),
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
        "tenants_known": int(queue.get("tenants_known") or 0),
        "blocked_keys": key_rows(queue, now_ms=now_ms),
        "blocked_keys_known": int(queue.get("blocked_keys_known") or 0),
        "on_full": policy.get("on_full") or "reject",
        "drain": drain_part(load, outlook, fewer, rule=rule, total_slots=total_slots, fill=fill),
    }
    if (now_ms // 1000) % BINS_EVERY_S == 0:
        row["wait_bins"] = {str(key): int(count) for key, count in (queue.get("wait_bins") or {}).items()}
    row["unknown"] = null_reasons(row, UNKNOWN)
    return row


def _read_facts(
    queue: Mapping[str, Any], policy: Mapping[str, Any], load: Load, *, bounds: Bounds, mode: str
) -> Facts:
    """What decides the queue's state; ``bounds`` are those in force under the mode."""
    depth, size, cost_ms = int(queue["depth"]), int(queue["bytes"]), int(queue["cost_ms"])
    # What is spilled is counted as delayed, and stands outside the queue's bounds.
    held = depth + int(queue["delayed"]) - int(queue.get("spilled") or 0)
    return Facts(
        depth=load.depth,
        held=held,
        bytes=size,
        cost_ms=cost_ms,
        oldest_age_ms=round(load.age_s * 1000),
        consumers=load.consumers,
        guard_age_s=policy.get("guard_age_s"),
        age_ceiling_s=policy.get("age_ceiling_s"),
        bounds=bounds,
        admits=admits(policy, mode),
        next_bytes=size / held if held else 0.0,
        next_cost_ms=cost_ms / depth if depth else 0.0,
        spill_full=is_spill_full(queue, policy),
    )

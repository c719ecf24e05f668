"""The shape of a frame, as a JSON schema: what the page and the API may rely on."""

from __future__ import annotations

from typing import Any

from workers.admission.policy import ON_FULL
from workers.states import CREDITS, TICKETS, TOTALS

NUMBER = {"type": ["number", "null"], "minimum": 0}
WHOLE = {"type": "integer", "minimum": 0}
WHOLE_OR_NULL = {"type": ["integer", "null"], "minimum": 0}
TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}
UNKNOWN = {"type": "object", "additionalProperties": TEXT}


def thing(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, "unknown": UNKNOWN, **optional},
        "additionalProperties": False,
    }


BUFFERS = ("blocked", "spilled", "ready", "delayed", "reserved", "running")
BOUNDS = thing(dict.fromkeys(("count", "bytes", "cost_ms", "age_s"), NUMBER))
RATES = thing(dict.fromkeys(TOTALS, NUMBER))
PERCENTILES = thing(dict.fromkeys(("p50", "p95", "p99"), WHOLE_OR_NULL))
DRAIN = thing(
    {
        "state": {"enum": ["empty", "draining", "growing", "stalled", "unknown"]},
        "reason": TEXT,
        "modeled": {"const": True},
        "seconds": NUMBER,
        "low": NUMBER,
        "high": NUMBER,
        "full_in_s": NUMBER,
        "full_by": TEXT_OR_NULL,
        "inputs": {"type": "object"},
    }
)
QUEUE = thing(
    {
        "name": TEXT,
        "mode": {"enum": ["normal", "saturated", "draining", "failed"]},
        "mode_since_at_ms": WHOLE_OR_NULL,
        "mode_reason": TEXT,
        "state": {
            "enum": ["in_bounds", "past_guard", "past_ceiling", "at_bound", "closed", "stalled", "unknown"]
        },
        "state_since_at_ms": WHOLE,
        "full_bound": TEXT,
        **dict.fromkeys(("depth", "held", "delayed", "spilled", "in_flight", "bytes", "cost_ms"), WHOLE),
        "oldest_age_ms": WHOLE,
        "next_due_at_ms": WHOLE_OR_NULL,
        "inlet": WHOLE,
        "consumers": WHOLE,
        "slots": WHOLE,
        "guard_age_s": NUMBER,
        "age_ceiling_s": NUMBER,
        "weight": NUMBER,
        "strict_rank": WHOLE_OR_NULL,
        "reserved_slots": WHOLE,
        "max_in_flight": WHOLE_OR_NULL,
        "saturated_share": NUMBER,
        "admit_while_draining": {"type": "boolean"},
        "share": thing(
            {**dict.fromkeys(("done", "work", "by_weight"), NUMBER), "of": WHOLE, "over_ms": WHOLE}
        ),
        "parked": WHOLE,
        "set_aside": {"type": "array", "items": thing({"downstream": TEXT, "jobs": WHOLE, "share": NUMBER})},
        "downstream": TEXT_OR_NULL,
        "downstream_share": NUMBER,
        "promise": {
            "oneOf": [
                {"type": "null"},
                thing(
                    {
                        "max_wait_s": NUMBER,
                        "wait_s": NUMBER,
                        "count": WHOLE,
                        "cost_ms": WHOLE,
                        **dict.fromkeys(("jobs_per_s", "work_ms_per_s", "slots", "slots_open"), NUMBER),
                        "mean_service_ms": NUMBER,
                        "from": {"enum": ["prior", "last seen", "60 s", "ever", "estimate", "nothing"]},
                        "step_per_s": NUMBER,
                        "modeled": {"const": True},
                    }
                ),
            ]
        },
        "owner": TEXT_OR_NULL,
        "credits": thing(dict.fromkeys((*CREDITS, "producers"), WHOLE)),
        "waiting_room": {
            "oneOf": [
                {"type": "null"},
                thing(
                    {
                        **dict.fromkeys(("line", "called", *TICKETS, "max"), WHOLE),
                        "slot_s": NUMBER,
                        "modeled_wait_s": NUMBER,
                    }
                ),
            ]
        },
        "blocked_ms": WHOLE,
        "buffers": thing(
            dict.fromkeys(("blocked", "spilled", "ready", "delayed", "reserved", "running", "sum"), WHOLE)
        ),
        "rate_limits": {"type": "array", "maxItems": 10, "items": {"type": "object"}},
        "policy_version": WHOLE_OR_NULL,
        "tenants_known": WHOLE,
        "bounds": BOUNDS,
        "bounds_in_force": BOUNDS,
        "totals": thing({**dict.fromkeys(TOTALS, WHOLE), "refused_by": {"type": "object"}}),
        "anomalies": thing(
            dict.fromkeys(("duplicate_deliveries", "tombstone_hits", "ambiguous_completions"), WHOLE)
        ),
        "rates": RATES,
        "wait_ms": PERCENTILES,
        "service_ms": PERCENTILES,
        "objective": {
            "oneOf": [
                {"type": "null"},
                thing(
                    {
                        "objective_s": NUMBER,
                        "objective_share": NUMBER,
                        "attained": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
                        "of": WHOLE,
                        "over_s": WHOLE,
                        "burn_rate": thing(dict.fromkeys(("5m", "30m", "1h", "6h"), NUMBER)),
                    }
                ),
            ]
        },
        "spill": {
            "oneOf": [
                {"type": "null"},
                thing(
                    {
                        **dict.fromkeys(("count", "bytes", "oldest_age_ms"), WHOLE),
                        "bounds": thing(dict.fromkeys(("count", "bytes", "age_s"), NUMBER)),
                    }
                ),
            ]
        },
        "blocked_keys": {
            "type": "array",
            "maxItems": 5,
            "items": thing(
                {
                    **dict.fromkeys(("key", "tenant", "holder"), TEXT),
                    "holder_phase": {"enum": ["waiting", "delayed", "in flight", "gone"]},
                    "epoch": WHOLE_OR_NULL,
                    "worker": TEXT_OR_NULL,
                    "held_ms": WHOLE_OR_NULL,
                    "waiting": WHOLE,
                    "oldest_age_ms": WHOLE,
                }
            ),
        },
        "blocked_keys_known": WHOLE,
        "on_full": {"enum": list(ON_FULL)},
        "drain": DRAIN,
        "unknown": UNKNOWN,
    },
    wait_bins={"type": "object", "additionalProperties": WHOLE},
)
FRAME = thing(
    {
        "seq": WHOLE,
        "at_ms": WHOLE,
        "installation": TEXT,
        "gate": TEXT,
        "mode": {"enum": ["normal", "saturated", "draining", "failed"]},
        "mode_since_at_ms": WHOLE_OR_NULL,
        "mode_reason": TEXT,
        "mode_by": TEXT_OR_NULL,
        "mode_automatic": {"type": "boolean"},
        "mode_until_at_ms": WHOLE_OR_NULL,
        "mode_pinned": {"type": "boolean"},
        "mode_leaves": TEXT_OR_NULL,
        "sampled_ago_ms": WHOLE,
        "verdict": thing(
            {
                "shape": {"enum": ["ring", "triangle", "diamond", "square", "dashed"]},
                "headline": TEXT,
                "lines": {"type": "array", "items": TEXT, "maxItems": 3},
            }
        ),
        "redis": {
            "type": "object",
            "required": ["state", "detail", "since_at_ms", "used_bytes", "max_bytes"],
        },
        "database": thing(
            {
                "state": {"enum": ["ok", "away", "unwritable", "slow", "unknown"]},
                "detail": TEXT,
                "since_at_ms": WHOLE_OR_NULL,
            }
        ),
        "notices": {"type": "array", "items": thing({"kind": TEXT, "text": TEXT, "since_at_ms": WHOLE})},
        "alerts": thing({"firing": WHOLE_OR_NULL, "items": {"type": "array"}, "last_at_ms": WHOLE_OR_NULL}),
        "quarantine": {"type": "object", "required": ["count", "bytes", "oldest_age_ms", "causes"]},
        "events": {"type": "array", "maxItems": 20},
        "buffers": thing(
            dict.fromkeys(
                ("door", "blocked", "spilled", "ready", "delayed", "reserved", "running", "sum"), WHOLE
            )
        ),
        "totals_all": thing({"rates": RATES}),
        "queues": {"type": "array", "items": QUEUE},
        "tenants": {
            "type": "array",
            "maxItems": 50,
            "items": {
                "type": "object",
                "required": ["tenant", "queue", "rates", "depth", "share", "fair_share", "oldest_age_ms"],
            },
        },
        "tenants_left_out": WHOLE,
        "downstreams": {
            "type": "array",
            "items": thing(
                {
                    "name": TEXT,
                    "version": WHOLE,
                    "kind": {"enum": ["aimd", "gradient"]},
                    **dict.fromkeys(("target_ms", "min", "max", "initial", "window_ms"), WHOLE),
                    "backoff": NUMBER,
                    "limit": WHOLE,
                    "in_flight": WHOLE,
                    "state": {"enum": ["open", "at_limit"]},
                    "mean_ms": NUMBER,
                    "changed_at_ms": WHOLE_OR_NULL,
                    "queues": {"type": "array", "items": TEXT},
                    "rates": thing(dict.fromkeys(("answered", "dropped"), NUMBER)),
                    **dict.fromkeys(("answered", "dropped", "cuts", "raises"), WHOLE),
                    "latency_ms": PERCENTILES,
                    "gated_ms": PERCENTILES,
                }
            ),
        },
        "workers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "slots", "beat_at_ms", "beat_ago_ms", "state", "held"],
            },
        },
        "unknown": UNKNOWN,
    }
)

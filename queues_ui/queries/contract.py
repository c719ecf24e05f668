"""What does a queue promise, put so that it can be tested?"""

from __future__ import annotations

from typing import Any

from workers.admission.policy import Policy

RETENTION_S = 3600
TOMBSTONE_S = 86_400
ORDERS = {
    "fifo": "By eligibility within a tenant; tenants take turns by cost.",
    "lifo": "By eligibility within a tenant; newest first while the mode is saturated.",
    "edf": "The earliest deadline first within a tenant, without one last; tenants take turns by cost.",
}


def contract_of(queue: str, policy: Policy, *, version: int, durability: str) -> dict[str, Any]:
    return {
        "queue": queue,
        "policy_version": version,
        "owner": policy.owner,
        "acceptance": {
            "boundary": durability,
            "statement": "A 202, or a delay() that returns: the job is stored in Redis at this boundary.",
            "identity": "One id an operation; the same Idempotency-Key and body give the same for 24 h.",
            "idempotency_kept_s": TOMBSTONE_S,
        },
        "completion": _completion(policy),
        "ordering": {
            "order": policy.order,
            "statement": ORDERS[policy.order],
            "strict_rank": policy.strict_rank,
            "weight": policy.weight,
            "controlled_delay": _controlled_delay(policy),
        },
        "bounds": {
            name: getattr(policy, name)
            for name in (
                "max_count",
                "max_bytes",
                "max_cost_ms",
                "max_age_s",
                "max_wait_s",
                "max_in_flight",
                "max_in_flight_per_task",
                "downstream",
                "tenant_share",
            )
        }
        | {"rate_limits": [dict(limit) for limit in policy.rate_limits]},
        "backpressure": {
            "on_full": policy.on_full,
            "statement": "At a bound: 429 with Retry-After, or AdmissionRefused; nothing is stored."
            if policy.on_full == "reject"
            else f"At a bound the declared rule is {policy.on_full}.",
            "saturated_share": policy.saturated_share,
            "admit_while_draining": policy.admit_while_draining,
            "answer_within_s": 2,
        },
        "cancellation": {
            "statement": "Before its start: it never runs. While it runs: it is asked to stop. After: 409.",
            "tombstone_kept_s": TOMBSTONE_S,
        },
        "recovery": {
            "delivery": "at least once, with a fencing epoch a delivery",
            "lease_s": policy.lease_s,
            "max_deliveries": policy.max_deliveries,
            "statement": f"A dead worker loses its lease within {policy.lease_s:g} s; the job runs again, "
            f"and after {policy.max_deliveries} deliveries it goes to quarantine.",
        },
        "observability": {
            "guard_age_s": policy.guard_age_s,
            "age_ceiling_s": policy.age_ceiling_s,
            "operation": "/api/v1/jobs/{operation_id}",
            "kept_s": RETENTION_S,
            "frame": "/api/v1/queues",
            "metrics": "/metrics",
        },
    }


def _controlled_delay(policy: Policy) -> str:
    if policy.codel_target_ms is None or policy.codel_interval_ms is None:
        return "No job is shed for the time that it has waited."
    target_ms, interval_ms = policy.codel_target_ms, policy.codel_interval_ms
    return (
        f"A job that has waited {interval_ms} ms may be shed at its start; once the queue has not been empty "
        f"for {interval_ms} ms, one that has waited {target_ms} ms."
    )


def _completion(policy: Policy) -> dict[str, Any]:
    if policy.objective_s is None or policy.objective_share is None:
        return {
            "objective_s": None,
            "objective_share": None,
            "statement": "No completion objective is declared.",
        }
    return {
        "objective_s": policy.objective_s,
        "objective_share": policy.objective_share,
        "statement": f"{policy.objective_share:.2%} of accepted jobs are done in {policy.objective_s:g} s.",
    }

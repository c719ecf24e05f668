"""What does a queue promise, put so that it can be tested?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from workers.admission.policy import Policy
from workers.forecast.wording import NBSP, put_duration, put_number, put_share
from workers.modes.shed_order import shed_order

TOMBSTONE_S = 86_400
ORDERS = {
    "fifo": "By eligibility within a tenant; tenants take turns by cost.",
    "lifo": "By eligibility within a tenant; newest first while the mode is saturated.",
    "edf": "The earliest deadline first within a tenant, without one last; tenants take turns by cost.",
}
ONE_AT_A_TIME = "Of one ordering_key one runs at a time, in order of acceptance, over retries."
BOUNDS = (
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


def contract_of(
    queue: str,
    policy: Policy,
    *,
    version: int,
    durability: str,
    row: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Each part in a sentence, with its figures and how to test it; `row` is the queue's in the frame."""
    return {
        "queue": queue,
        "policy_version": version,
        "owner": policy.owner,
        "acceptance": {
            "boundary": durability,
            "statement": "A 202, or a delay() that returns: the job is stored in Redis at this boundary.",
            "identity": "One id an operation; the same Idempotency-Key and body give the same for 24 h.",
            "idempotency_kept_s": TOMBSTONE_S,
            "tests": [
                "Submit, kill -9 every process, start them again: the job runs.",
                "Submit 50 times at once with one Idempotency-Key: one operation_id, one run.",
            ],
        },
        "completion": _completion(policy, row),
        "ordering": _ordering(policy),
        "bounds": {
            **{name: getattr(policy, name) for name in BOUNDS},
            "rate_limits": [dict(limit) for limit in policy.rate_limits],
            "tests": _bound_tests(policy),
        },
        "backpressure": _backpressure(queue, policy),
        "cancellation": {
            "statement": "Before its start: it never runs. While it runs: it is asked to stop. After: 409.",
            "tombstone_kept_s": TOMBSTONE_S,
            "tests": [
                "DELETE a waiting, delayed or spilled job: 200, and it never starts; again: 200.",
                "DELETE a job in a worker's reserve: 202, and its code is not entered.",
                "DELETE a settled job: 409, unchanged.",
            ],
        },
        "recovery": {
            "delivery": "at least once, with a fencing epoch a delivery",
            "lease_s": policy.lease_s,
            "max_deliveries": policy.max_deliveries,
            "statement": f"A dead worker loses its lease within {put_duration(policy.lease_s)}; the job runs "
            f"again, and after {policy.max_deliveries} deliveries it goes to quarantine.",
            "tests": [
                f"kill -9 a worker in a job: it starts again within {put_duration(policy.lease_s + 1)}.",
                f"A job that kills its worker starts {policy.max_deliveries} times, then is in quarantine.",
                "Stop a worker past its lease, continue it: its settle is refused, the second result kept.",
            ],
        },
        "observability": {
            "guard_age_s": policy.guard_age_s,
            "age_ceiling_s": policy.age_ceiling_s,
            "operation": "/api/v1/jobs/{operation_id}",
            "kept_s": settings.SLUICEGATE_RETENTION_S,
            "frame": "/api/v1/queues",
            "metrics": "/metrics",
            "statement": (
                f"An operation can be asked for until {put_duration(settings.SLUICEGATE_RETENTION_S)} after "
                "its end; a frame each second."
            ),
            "tests": [
                "offered = accepted + refused in each frame.",
                "accepted = depth + delayed + in_flight + what has ended, in each frame.",
            ],
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


def _completion(policy: Policy, row: Mapping[str, Any] | None) -> dict[str, Any]:
    if policy.objective_s is None or policy.objective_share is None:
        return {
            "objective_s": None,
            "objective_share": None,
            "measured": None,
            "statement": "No completion objective is declared.",
            "tests": [],
        }
    part: dict[str, Any] = {
        "objective_s": policy.objective_s,
        "objective_share": policy.objective_share,
        "statement": f"{100 * policy.objective_share:g}{NBSP}% of accepted jobs are done in "
        f"{put_duration(policy.objective_s)}.",
        "counted": "From acceptance, or the due time, to the end; without cancelled and superseded ones.",
        "tests": [
            "in_objective / promised over a period is at least objective_share.",
            "The burn rate stays under 14.4 over 5 min and 1 h, and under 6 over 30 min and 6 h.",
        ],
    }
    objective = (row or {}).get("objective")
    part["measured"] = (
        None if not objective else {name: objective[name] for name in ("attained", "of", "over_s")}
    )
    if objective:
        part["burn_rate"] = objective["burn_rate"]
    else:
        part["unknown"] = {"measured": "no sample of this queue"}
    return part


def _ordering(policy: Policy) -> dict[str, Any]:
    return {
        "order": policy.order,
        "statement": f"{ORDERS[policy.order]} {ONE_AT_A_TIME}",
        "strict_rank": policy.strict_rank,
        "weight": policy.weight,
        "controlled_delay": _controlled_delay(policy),
        "tests": [
            "A, B and C of one ordering_key, A fails once: starts are A, A, B, C; other keys do not wait.",
            "A source_sequence that is not newer than the last accepted of its key: 409, duplicate.",
        ],
    }


def _bound_tests(policy: Policy) -> list[str]:
    tests = []
    if policy.max_count is not None:
        held = "depth + delayed - spilled" if policy.on_full == "spill" else "depth + delayed"
        most = policy.max_count * _stretch(policy)
        tests.append(
            f"With no worker, offer {put_number(most + 1)} jobs from many producers at once: "
            f"{held} is never above {put_number(most)}."
        )
    if policy.max_bytes is not None:
        tests.append(
            f"The bytes of a frame are never above {put_number(policy.max_bytes * _stretch(policy))}."
        )
    if policy.max_cost_ms is not None:
        tests.append(
            f"The cost_ms of a frame is never above {put_number(policy.max_cost_ms * _stretch(policy))}."
        )
    share = policy.tenant_share if policy.tenant_share is not None else 0.8
    tests.append(
        f"Of two tenants, one that floods is refused at {put_share(share)} of a bound, the other not."
    )
    tests.append(
        "What was accepted before may stand above a bound when it comes back: counted in over_bound."
    )
    return tests


def _stretch(policy: Policy) -> float:
    """How far beyond its bounds a queue may be filled by what it degrades into itself."""
    return 1 + (policy.degrade_reserve or 0) if policy.on_full == "degrade" else 1


def _backpressure(queue: str, policy: Policy) -> dict[str, Any]:
    step = shed_order({queue: policy.as_fields()}, "normal")[0]
    part: dict[str, Any] = {
        "on_full": policy.on_full,
        "statement": f"{step.says[:1].upper()}{step.says[1:]}.",
        "saturated_share": policy.saturated_share,
        "admit_while_draining": policy.admit_while_draining,
        "may_coalesce": policy.may_coalesce,
        "answer_within_s": 2,
        "tests": [
            "A refusal is 429 or 503 with a whole Retry-After of at least 1; wait that long on an idle "
            "system: accepted 9 times of 10.",
            "A deadline_s shorter than the modeled wait: 429, deadline, with both figures.",
            *_OUTCOME_TESTS.get(policy.on_full, ()),
        ],
    }
    for name in _OUTCOME_FIELDS.get(policy.on_full, ()):
        part[name] = getattr(policy, name)
    if not policy.may_coalesce:
        part["tests"].append("A coalesce_key: 422, coalescing.")
    return part


_OUTCOME_FIELDS = {
    "block": ("block_s",),
    "sample": ("sample_rate", "high_mark"),
    "degrade": ("degrade_to", "degrade_queue", "degrade_reserve"),
    "spill": ("spill_max_count", "spill_max_bytes", "spill_max_age_s", "low_mark"),
}
_OUTCOME_TESTS = {
    "drop_newest": ("At a bound: 202 with status shed, and the job can be looked up as shed.",),
    "sample": ("Over the high mark about sample_rate of the offers are accepted, the others are shed.",),
    "drop_oldest": ("At a bound: 202, and the job that waited longest has ended as shed.",),
    "coalesce": ("Two offers of one coalesce_key: the first ends as superseded and names the second.",),
    "degrade": ("At a bound: 202 with degraded_from; the worker runs degrade_to with the same arguments.",),
    "spill": (
        "At a bound: 202 with phase spilled; with the workers back, a tenant's jobs start in order.",
        "Past the spill's bounds: 429.",
    ),
}

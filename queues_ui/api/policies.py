"""Read and change what a queue's policy says, and the promise that follows from it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from workers.actions import change_policy
from workers.admission.policy import Policy, parse_policy
from workers.exceptions import StoreUnavailable
from workers.models import PolicyVersion
from workers.states import MODES

from ..access.door import Scope
from ..queries.contract import contract_of
from ..queries.durability import durability_of
from ..queries.engine import open_gate
from ..queries.frame import read_frame
from ..queries.known_queues import known_queues
from ..queries.reach import reach_gate
from ..queries.shed_order import read_shed_order
from .problems import Problem, unknown_queue
from .reading import take_reason_and_version
from .schemas import BODY, ProblemDocument

router = Router(tags=["policies"])
FAULTS = dict.fromkeys((401, 403, 404, 409, 422, 503), ProblemDocument)


@router.get("/policies", auth=Scope("read"), response={200: dict, **FAULTS})
def list_policies(request: HttpRequest) -> dict[str, Any]:
    newest = change_policy.newest_versions()
    return {
        "policies": [show_version(row) for row in newest.values()],
        "fields": list(Policy.__dataclass_fields__),
    }


@router.get("/policies/{queue}", auth=Scope("read"), response={200: dict, **FAULTS})
def read_policy(request: HttpRequest, queue: str) -> dict[str, Any]:
    row = _newest(queue)
    earlier = PolicyVersion.objects.filter(queue=queue).order_by("-version")[:20]
    return {**show_version(row), "history": [show_version(old, fields=False) for old in earlier]}


@router.put("/policies/{queue}", auth=Scope("operate"), response={200: dict, **FAULTS})
def write_policy(
    request: HttpRequest, queue: str, changes: dict[str, Any] = BODY, dry_run: bool = False
) -> dict[str, Any]:
    """The fields that change, flat or under `fields`; also `reason`, and `version` to be sure of the base.

    With `dry_run` nothing is changed: what would be refused is refused, and else the answer has the fields as
    they would stand.
    """
    changes = dict(changes)
    reason, version = take_reason_and_version(changes)
    nested = changes.pop("fields", {})
    if not isinstance(nested, dict):
        raise Problem(422, "invalid", "fields must be an object of the fields that change.", field="fields")
    changes.update(nested)
    for name in ("queue", "by", "at_ms", "history", "policy_version"):
        changes.pop(name, None)  # what GET showed may come back with the rest
    if dry_run:
        fields = change_policy.check(
            request.auth.actor, queue=queue, changes=changes, expected_version=version
        )
        return {"queue": queue, "version": version, "dry_run": True, **fields}
    with reach_gate() as store:
        change_policy.execute(
            request.auth.actor,
            store=store,
            queue=queue,
            changes=changes,
            reason=reason,
            expected_version=version,
        )
    return show_version(_newest(queue))


@router.get("/contracts/{queue}", auth=Scope("read"), response={200: dict, **FAULTS})
def read_contract(request: HttpRequest, queue: str) -> dict[str, Any]:
    """The promise of a queue in testable form, made from its policy, with what the newest frame measured."""
    row = _newest(queue)
    return contract_of(
        queue,
        parse_policy(row.fields),
        version=row.version,
        durability=durability_of(open_gate()),
        row=_newest_row(queue),
    )


@router.get("/shed-order", auth=Scope("read"), response={200: dict, **FAULTS})
def read_order(request: HttpRequest, mode: str | None = None) -> dict[str, Any]:
    """What gives way first under pressure: in the mode in force, or what if `mode` were."""
    if mode is not None and mode not in MODES:
        raise Problem(422, "invalid", f"mode must be one of {', '.join(MODES)}.", field="mode")
    policies = {
        queue: parse_policy(row.fields).as_fields() for queue, row in change_policy.newest_versions().items()
    }
    frame = _newest_frame()
    in_force = str(frame["mode"]) if frame else "normal"
    return read_shed_order(policies, frame, mode=mode or in_force)


def show_version(row: PolicyVersion, *, fields: bool = True) -> dict[str, Any]:
    shown = {
        "queue": row.queue,
        "version": row.version,
        "by": row.by,
        "reason": row.reason,
        "at_ms": int(row.at.timestamp() * 1000),
    }
    # Fields that a later release added have their default in an older row.
    return {**shown, **parse_policy(row.fields).as_fields()} if fields else {**shown, "fields": row.fields}


def _newest_row(queue: str) -> dict[str, Any] | None:
    return next((row for row in (_newest_frame() or {}).get("queues") or [] if row["name"] == queue), None)


def _newest_frame() -> dict[str, Any] | None:
    """None while Redis is away too: what policies promise, and what gives way first, can be read then."""
    try:
        with reach_gate() as store:
            return read_frame(store)
    except StoreUnavailable:
        return None


def _newest(queue: str) -> PolicyVersion:
    row = change_policy.newest_version(queue)
    if row is None:
        raise unknown_queue(queue, known_queues())
    return row

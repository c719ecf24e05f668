"""Change the policy of a queue, or give a new queue one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction

from ..admission.policy import Policy, PolicyError, check_queue_name, parse_policy
from ..exceptions import StoreUnavailable
from ..models import PolicyVersion
from ..store import Store
from .actor import Actor, NotPossible, Result
from .downstreams import standing
from .journal import FAILED, require_role, write_entry
from .naming import tell_known, tell_no_downstream, tell_no_queue

VERB: Final = "change_policy"


def execute(
    actor: Actor,
    *,
    store: Store,
    queue: str,
    changes: Mapping[str, Any],
    reason: str = "",
    expected_version: int | None = None,
) -> Result:
    require_role(actor, "operator", VERB, target=queue, reason=reason)
    newest, base, policy = _read_change(actor, queue, changes, expected_version)
    fields = policy.as_fields()
    before = base.as_fields()
    changed = {name: value for name, value in fields.items() if before[name] != value}
    if newest is not None and not changed:
        return Result(
            VERB, queue, {"queue": queue, "version": newest.version, "fields": fields, "changed": {}}
        )
    version = (newest.version if newest else 0) + 1
    try:
        with transaction.atomic():
            PolicyVersion.objects.create(
                queue=queue, version=version, fields=fields, by=actor.name, reason=reason[:2000]
            )
            store.publish_policy(queue, fields, version=version)
            write_entry(
                actor,
                VERB,
                target=queue,
                reason=reason,
                before={name: before[name] for name in changed},
                after={**changed, "version": version},
            )
    except IntegrityError as fault:
        raise NotPossible(
            "version", "Somebody changed this policy at the same time; read it again.", status=409
        ) from fault
    except StoreUnavailable as fault:
        write_entry(
            actor, VERB, target=queue, reason=reason, after={**changed, "fault": fault.reason}, outcome=FAILED
        )
        raise
    return Result(VERB, queue, {"queue": queue, "version": version, "fields": fields, "changed": changed})


def check(
    actor: Actor, *, queue: str, changes: Mapping[str, Any], expected_version: int | None = None
) -> dict[str, Any]:
    """What `execute` would refuse, refused without a change; else the fields as they would stand."""
    require_role(actor, "operator", VERB, target=queue, reason="")
    return _read_change(actor, queue, changes, expected_version)[2].as_fields()


def _read_change(
    actor: Actor, queue: str, changes: Mapping[str, Any], expected_version: int | None
) -> tuple[PolicyVersion | None, Policy, Policy]:
    """The version in force, its policy, and the policy that the changes make of it."""
    try:
        check_queue_name(queue)
    except PolicyError as fault:
        raise NotPossible("invalid", str(fault), field=fault.field) from fault
    newest = newest_version(queue)
    if newest is None and not actor.may("admin"):
        known = tell_known(queue, newest_versions())
        raise NotPossible(
            "unknown_queue",
            f"There is no queue {queue!r} ({known}); an admin may make one.",
            field="queue",
            status=404,
        )
    if expected_version is not None and expected_version != (newest.version if newest else 0):
        raise NotPossible(
            "version",
            f"The policy is at version {newest.version if newest else 0} by now; read it again.",
            field="version",
            status=409,
        )
    base = parse_policy(newest.fields) if newest else Policy()
    try:
        policy = parse_policy(changes, base=base)
        _check_texts(changes)
        _check_degrade_queue(queue, policy)
    except PolicyError as fault:
        raise NotPossible("invalid", str(fault), field=fault.field) from fault
    if policy.downstream not in (None, base.downstream) and policy.downstream not in standing():
        raise NotPossible(
            "invalid",
            f"{tell_no_downstream(policy.downstream or '', standing())} Make it first.",
            field="downstream",
        )
    return newest, base, policy


def _check_texts(changes: Mapping[str, Any]) -> None:
    """JSON can say half a character, and nothing could show it again."""
    for name, value in changes.items():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise PolicyError(name, "holds half a character", "give text that UTF-8 can write") from None


def _check_degrade_queue(queue: str, policy: Policy) -> None:
    other = policy.degrade_queue
    if other == queue:
        raise PolicyError("degrade_queue", "is this queue itself", "leave it out and set degrade_reserve")
    if other is not None and newest_version(other) is None:
        raise NotPossible("invalid", tell_no_queue(other, newest_versions()), field="degrade_queue")


def newest_version(queue: str) -> PolicyVersion | None:
    row: PolicyVersion | None = PolicyVersion.objects.filter(queue=queue).order_by("-version").first()
    return row


def newest_versions() -> dict[str, PolicyVersion]:
    newest: dict[str, PolicyVersion] = {}
    for row in PolicyVersion.objects.order_by("queue", "version"):
        newest[row.queue] = row
    return newest

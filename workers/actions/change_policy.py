"""Change the policy of a queue, or give a new queue one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction

from ..admission.policy import Policy, PolicyError, parse_policy
from ..exceptions import StoreUnavailable
from ..models import PolicyVersion
from ..store import Store
from .actor import Actor, NotPossible, Result
from .journal import FAILED, require_role, write_entry

VERB: Final = "change_policy"
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}")


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
    if not QUEUE_NAME.fullmatch(queue):
        raise NotPossible(
            "invalid",
            "A queue's name has 1 to 100 letters, digits, dots, dashes or underscores.",
            field="queue",
        )
    newest = newest_version(queue)
    if newest is None and not actor.may("admin"):
        raise NotPossible(
            "unknown_queue", f"There is no queue {queue!r}; an admin may make one.", field="queue", status=404
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
        fields = parse_policy(changes, base=base).as_fields()
    except PolicyError as fault:
        raise NotPossible("invalid", str(fault), field=fault.field) from fault
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


def newest_version(queue: str) -> PolicyVersion | None:
    row: PolicyVersion | None = PolicyVersion.objects.filter(queue=queue).order_by("-version").first()
    return row


def newest_versions() -> dict[str, PolicyVersion]:
    newest: dict[str, PolicyVersion] = {}
    for row in PolicyVersion.objects.order_by("queue", "version"):
        newest[row.queue] = row
    return newest

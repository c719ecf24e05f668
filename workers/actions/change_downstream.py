"""Change the settings of a downstream, make one, or take one away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction

from ..exceptions import StoreUnavailable
from ..limits.downstream import NAME, Downstream, DownstreamError, parse_downstream
from ..models import DownstreamVersion
from ..store import Store
from .actor import Actor, NotPossible, Result
from .change_policy import newest_versions as newest_policies
from .downstreams import newest_version, standing
from .journal import FAILED, require_role, write_entry
from .naming import tell_no_downstream

VERB: Final = "change_downstream"
MOST: Final = 200  # each is in every frame


def execute(
    actor: Actor,
    *,
    store: Store,
    name: str,
    changes: Mapping[str, Any] | None,
    reason: str = "",
    expected_version: int | None = None,
) -> Result:
    """Makes ``changes`` the settings in force; None takes the downstream away, and its limit with it."""
    require_role(actor, "operator", VERB, target=name, reason=reason)
    if not NAME.fullmatch(name):
        raise NotPossible(
            "invalid",
            "A downstream's name has 1 to 100 letters, digits, dots, dashes or underscores.",
            field="name",
        )
    newest = newest_version(name)
    present = newest is not None and newest.fields is not None
    if not present and changes is None:
        raise NotPossible(
            "unknown_downstream", tell_no_downstream(name, standing()), field="name", status=404
        )
    if not present and not actor.may("admin"):
        raise NotPossible(
            "unknown_downstream",
            f"{tell_no_downstream(name, standing())} An admin may make one.",
            field="name",
            status=404,
        )
    if not present and len(standing()) >= MOST:
        raise NotPossible("invalid", f"There are {MOST} downstreams already.", field="name")
    at_version = newest.version if newest else 0
    if expected_version is not None and expected_version != at_version:
        raise NotPossible(
            "version",
            f"The settings are at version {at_version} by now; read them again.",
            field="version",
            status=409,
        )
    before = newest.fields if newest is not None and newest.fields is not None else {}
    fields = _fields_after(name, before, changes)
    changed = {key: value for key, value in (fields or {}).items() if before.get(key) != value}
    if present and fields is not None and not changed:
        data = {"name": name, "version": at_version, "fields": fields, "changed": {}}
        return Result(VERB, name, data)
    told = {key: before.get(key) for key in changed} if fields is not None else before
    after: dict[str, Any] = {**changed, "version": at_version + 1}
    if fields is None:
        after["removed"] = True
    try:
        with transaction.atomic():
            DownstreamVersion.objects.create(
                name=name, version=at_version + 1, fields=fields, by=actor.name, reason=reason[:2000]
            )
            if fields is None:
                store.remove_downstream(name)
            else:
                store.publish_downstream(name, fields, version=at_version + 1)
            write_entry(actor, VERB, target=name, reason=reason, before=told, after=after)
    except IntegrityError as fault:
        raise NotPossible(
            "version", "Somebody changed these settings at the same time; read them again.", status=409
        ) from fault
    except StoreUnavailable as fault:
        failed = {**after, "fault": fault.reason}
        write_entry(actor, VERB, target=name, reason=reason, after=failed, outcome=FAILED)
        raise
    data = {"name": name, "version": at_version + 1, "fields": fields, "changed": changed}
    return Result(VERB, name, data)


def _fields_after(
    name: str, before: Mapping[str, Any], changes: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    if changes is None:
        users = sorted(q for q, row in newest_policies().items() if row.fields.get("downstream") == name)
        if users:
            raise NotPossible(
                "in_use",
                f"{', '.join(users)} still name {name} as their downstream.",
                field="name",
                status=409,
            )
        return None
    try:
        return parse_downstream(
            changes, base=parse_downstream(before) if before else Downstream()
        ).as_fields()
    except DownstreamError as fault:
        raise NotPossible("invalid", str(fault), field=fault.field) from fault

"""Suspend a tenant: its offers are refused and what it has waiting is held, until somebody resumes it.

Held and not cancelled: a suspension is often a dispute over an invoice or a leaked key, and its end must not
be a thousand lost jobs. What runs is left to end; its retries are held. A held job is not eligible: it has no
age and meets no deadline until it is let go; it counts against count, bytes and cost, since it is stored.
"""

from __future__ import annotations

from typing import Final

from ..exceptions import StoreUnavailable
from ..models import ApiKey, QuarantinedJob, Suspension
from ..store import Store
from .actor import Actor, NotPossible, Result
from .authority import about
from .gate import redis_now_ms
from .journal import require_role, write_entry

VERB: Final = "suspend_tenant"


def execute(actor: Actor, *, store: Store, tenant: str, reason: str) -> Result:
    """The database is told first: where Redis is away just now, the monitor tells it when it is back."""
    require_role(actor, "operator", VERB, target=tenant, reason=reason)
    if not 0 < len(tenant) <= 200:
        raise NotPossible("invalid", "tenant must have 1 to 200 characters.", field="tenant")
    if not reason.strip():
        raise NotPossible("invalid", "Say why: the reason is kept in the journal.", field="reason")
    at_ms = redis_now_ms(store)
    row, made = Suspension.objects.get_or_create(
        tenant=tenant, defaults={"by": actor.name, "reason": reason[:2000], "at_ms": at_ms}
    )
    try:
        held: int | None = store.suspend_tenant(tenant, about(row))
    except StoreUnavailable:
        held = None
    if made:
        write_entry(
            actor, VERB, target=tenant, reason=reason, after={"held": held, "in_force": held is not None}
        )
    told = {"held": held, "in_force": held is not None, "seen": _is_seen(store, tenant, held)}
    return Result(VERB, tenant, {**show_suspension(row), **told})


def _is_seen(store: Store, tenant: str, held: int | None) -> bool | None:
    """Whether anything is known of such a tenant; None while Redis cannot say. A misspelt one is not."""
    if held or any(rows.filter(tenant=tenant).exists() for rows in (ApiKey.objects, QuarantinedJob.objects)):
        return True
    try:
        return store.knows_tenant(tenant)
    except StoreUnavailable:
        return None


def show_suspension(row: Suspension) -> dict[str, object]:
    return {"tenant": row.tenant, **about(row)}

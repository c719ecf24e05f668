"""Delete what jobs about a person (a tag) or a tenant carry; the monitor does it, this orders it."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from ..models import Deletion
from ..store import Store
from .actor import Actor, NotPossible, Result
from .gate import redis_now_ms
from .journal import require_role, write_entry

VERB: Final = "delete_payloads"


def execute(actor: Actor, *, store: Store, tag: str | None, tenant: str | None, reason: str) -> Result:
    """What was accepted until now; the journal and the receipt name a tag by its digest only."""
    require_role(actor, "admin", VERB, target=_target(tag, tenant), reason=reason)
    if not tag and not tenant:
        raise NotPossible("invalid", "Name a tag, a tenant, or both.", field="tag")
    if not reason.strip():
        raise NotPossible("invalid", "Say why: the reason is kept in the receipt.", field="reason")
    row = Deletion.objects.create(
        by=actor.name,
        reason=reason[:2000],
        tag=tag or "",
        tag_sha256=digest(tag) if tag else "",
        tenant=tenant or "",
        began_at_ms=redis_now_ms(store),
    )
    write_entry(actor, VERB, target=_target(tag, tenant), reason=reason, after={"receipt": str(row.pk)})
    return Result(VERB, str(row.pk), show_deletion(row))


def digest(tag: str) -> str:
    return hashlib.sha256(tag.encode("utf-8", "surrogatepass")).hexdigest()


def show_deletion(row: Deletion) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "state": row.state,
        "by": row.by,
        "reason": row.reason,
        "tag_sha256": row.tag_sha256 or None,
        "tenant": row.tenant or None,
        "began_at_ms": row.began_at_ms,
        "ended_at_ms": row.ended_at_ms,
        "counts": row.counts,
        "running": row.running,
        "status_url": f"/api/v1/deletions/{row.pk}",
    }


def _target(tag: str | None, tenant: str | None) -> str:
    parts = [f"tag sha256:{digest(tag)[:16]}" if tag else "", f"tenant {tenant}" if tenant else ""]
    return " of ".join(part for part in parts if part)

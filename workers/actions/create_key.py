"""Make an API key. It is shown once; what is kept is its digest."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Any, Final

from ..models import ApiKey
from .actor import Actor, NotPossible, Result
from .journal import require_role, write_entry

VERB: Final = "create_key"
SCOPES: Final = ("submit", "read", "operate", "admin")
SHOWN: Final = 10  # characters of a key that are kept, so that keys can be told apart


def execute(
    actor: Actor,
    *,
    tenant: str = "default",
    scopes: list[str],
    tasks: list[str] | None = None,
    queues: list[str] | None = None,
    label: str = "",
    key: str | None = None,
) -> Result:
    """`key` is given where an operator brings one of their own; it must not be guessable."""
    require_role(actor, "admin", VERB, target=tenant)
    if not isinstance(tenant, str) or not 0 < len(tenant) <= 200:
        raise NotPossible("invalid", "tenant must have 1 to 200 characters.", field="tenant")
    wrong = [scope for scope in scopes if scope not in SCOPES]
    if wrong or not scopes:
        raise NotPossible("invalid", f"scopes are one or more of {', '.join(SCOPES)}.", field="scopes")
    globs = {"tasks": tasks or [], "queues": queues or []}
    for field, patterns in globs.items():
        if any(not re.fullmatch(r"[\w.*?\-\[\]!]{1,200}", pattern) for pattern in patterns):
            raise NotPossible("invalid", f"{field} are globs of names, such as reports.*", field=field)
    secret = key or "sg_" + secrets.token_urlsafe(32)
    row, made = ApiKey.objects.get_or_create(
        sha256=digest(secret),
        defaults={
            "prefix": secret[:SHOWN] if len(secret) >= 2 * SHOWN else secret[:3],
            "tenant": tenant,
            "scopes": sorted(set(scopes), key=SCOPES.index),
            "by": actor.name,
            "label": label[:200],
            **globs,
        },
    )
    if made:
        write_entry(actor, VERB, target=f"{row.prefix} of {tenant}", after=show_key(row))
    return Result(VERB, str(row.pk), {**show_key(row), "key": secret, "created": made})


def digest(key: str) -> str:
    """Keys carry 256 bits of chance: a fast digest is enough, and a slow one would cost 0.3 s a request."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def show_key(row: ApiKey) -> dict[str, Any]:
    return {
        "id": row.pk,
        "prefix": row.prefix,
        "tenant": row.tenant,
        "scopes": row.scopes,
        "tasks": row.tasks,
        "queues": row.queues,
        "label": row.label,
        "by": row.by,
        "created_at_ms": int(row.created_at.timestamp() * 1000),
        "last_used_at_ms": int(row.last_used_at.timestamp() * 1000) if row.last_used_at else None,
        "revoked_at_ms": int(row.revoked_at.timestamp() * 1000) if row.revoked_at else None,
    }

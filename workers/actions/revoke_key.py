"""Revoke an API key: it opens nothing from the next request on, and what it submitted is not started."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from ..exceptions import StoreUnavailable
from ..models import ApiKey
from ..store import Store
from .actor import Actor, NotPossible, Result
from .create_key import show_key
from .journal import require_role, write_entry

VERB: Final = "revoke_key"


def execute(actor: Actor, *, store: Store, key_id: int, reason: str = "") -> Result:
    require_role(actor, "admin", VERB, target=str(key_id), reason=reason)
    revoked = ApiKey.objects.filter(pk=key_id, revoked_at__isnull=True).update(revoked_at=timezone.now())
    row = ApiKey.objects.filter(pk=key_id).first()
    if row is None:
        raise NotPossible("unknown", "There is no such key.", status=404)
    try:
        store.bar_keys({str(row.pk): row.prefix})
        in_force = True
    except StoreUnavailable:
        in_force = False  # the door refuses it already; the monitor tells Redis when it is back
    if revoked:
        write_entry(actor, VERB, target=f"{row.prefix} of {row.tenant}", reason=reason)
    return Result(VERB, str(key_id), {**show_key(row), "in_force": in_force})

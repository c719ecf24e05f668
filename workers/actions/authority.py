"""Does Redis know whose authority has ended? The database says, and says it again where Redis lost it."""

from __future__ import annotations

from typing import Any

from ..models import ApiKey, Suspension
from ..store import Store


def sync_authority(store: Store) -> list[str]:
    """Brings Redis to what the database says; what had to be done, in words. Idempotent, from any process."""
    done: list[str] = []
    wanted = {row.tenant: row for row in Suspension.objects.all()}
    present = store.read_suspended()
    for tenant in wanted.keys() - present.keys():
        store.suspend_tenant(tenant, about(wanted[tenant]))
        done.append(f"suspended {tenant}")
    for tenant in present.keys() - wanted.keys():
        store.resume_tenant(tenant)
        done.append(f"resumed {tenant}")
    revoked = ApiKey.objects.filter(revoked_at__isnull=False).order_by()
    barred = store.read_barred_keys()
    missing = {str(pk): prefix for pk, prefix in revoked.values_list("pk", "prefix") if str(pk) not in barred}
    store.bar_keys(missing)
    return done + [f"barred key {prefix}" for prefix in missing.values()]


def about(row: Suspension) -> dict[str, Any]:
    return {"by": row.by, "reason": row.reason, "at_ms": row.at_ms}

"""Resume a suspended tenant: its offers are taken again, what was held becomes eligible now, in its order."""

from __future__ import annotations

from typing import Final

from ..exceptions import StoreUnavailable
from ..models import Suspension
from ..store import Store
from .actor import Actor, NotPossible, Result
from .journal import require_role, write_entry
from .suspend_tenant import show_suspension

VERB: Final = "resume_tenant"


def execute(actor: Actor, *, store: Store, tenant: str, reason: str = "") -> Result:
    require_role(actor, "operator", VERB, target=tenant, reason=reason)
    row = Suspension.objects.filter(tenant=tenant).first()
    if row is None:
        raise NotPossible("unknown", f"The tenant {tenant!r} is not suspended.", status=404)
    row.delete()
    try:
        released: int | None = store.resume_tenant(tenant)
    except StoreUnavailable:
        released = None  # the monitor goes on with it
    before = show_suspension(row)
    write_entry(actor, VERB, target=tenant, reason=reason, before=before, after={"released": released})
    data = {"tenant": tenant, "released": released, "in_force": released is not None, "was": before}
    return Result(VERB, tenant, data)

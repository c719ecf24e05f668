"""Who is suspended; suspend and resume."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from workers.actions import resume_tenant, suspend_tenant
from workers.models import Suspension

from ..access.door import Scope
from ..queries.engine import open_gate
from .paging import page_document, page_of
from .schemas import ProblemDocument, Why, WhyNeeded

router = Router(tags=["tenants"])
FAULTS = dict.fromkeys((401, 403, 404, 422, 503), ProblemDocument)


@router.get("/suspensions", auth=Scope("read"), response={200: dict, **FAULTS}, summary="Suspended tenants")
def list_suspended(
    request: HttpRequest, before: int | None = None, limit: int | None = None
) -> dict[str, Any]:
    """Newest first; `count` is of all of them."""
    rows = Suspension.objects.all()
    if request.auth.tenant is not None:
        rows = rows.filter(tenant=request.auth.tenant)
    page = page_of(rows, before=before, limit=limit)
    return page_document("suspensions", page, suspend_tenant.show_suspension, count=rows.count())


@router.post("/tenants/{path:tenant}/suspend", auth=Scope("operate"), response={200: dict, **FAULTS})
def suspend(request: HttpRequest, tenant: str, why: WhyNeeded) -> dict[str, Any]:
    """Its offers are refused (403), what it has waiting is held until it is resumed; what runs ends."""
    actor = request.auth.actor
    return suspend_tenant.execute(actor, store=open_gate(), tenant=tenant, reason=why.reason).data


@router.post("/tenants/{path:tenant}/resume", auth=Scope("operate"), response={200: dict, **FAULTS})
def resume(request: HttpRequest, tenant: str, why: Why) -> dict[str, Any]:
    actor = request.auth.actor
    return resume_tenant.execute(actor, store=open_gate(), tenant=tenant, reason=why.reason).data

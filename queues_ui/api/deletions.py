"""Order the deletion of what a person's or a tenant's jobs carry, and read the receipt."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from workers.actions import delete_payloads
from workers.models import Deletion
from workers.privacy.classes import RULES

from ..access.door import Scope
from ..queries.reach import reach_gate
from .paging import page_by_ms, page_document
from .problems import Problem
from .schemas import DeletionOrder, ProblemDocument

router = Router(tags=["deletions"])
FAULTS = dict.fromkeys((401, 403, 404, 422, 503), ProblemDocument)


@router.post("/deletions", auth=Scope("admin"), response={202: dict, **FAULTS}, summary="Delete by tag")
def order_deletion(request: HttpRequest, order: DeletionOrder) -> HttpResponse:
    """Queued, delayed, quarantined and recorded payloads, and results; done by the monitor within minutes."""
    with reach_gate() as store:
        result = delete_payloads.execute(
            request.auth.actor, store=store, tag=order.tag, tenant=order.tenant, reason=order.reason
        )
    return HttpResponse(json.dumps(result.data), status=202, content_type="application/json")


@router.get("/deletions", auth=Scope("admin"), response={200: dict, **FAULTS}, summary="The receipts")
def list_deletions(
    request: HttpRequest, tag: str | None = None, before: int | None = None, limit: int | None = None
) -> dict[str, Any]:
    """Newest first. `tag` finds the receipts of a tag: they keep its digest only."""
    rows = Deletion.objects.all()
    if tag:
        rows = rows.filter(tag_sha256=delete_payloads.digest(tag))
    page = page_by_ms(rows, "began_at_ms", before=before, limit=limit)
    return page_document("deletions", page, delete_payloads.show_deletion)


@router.get("/deletions/{deletion_id}", auth=Scope("admin"), response={200: dict, **FAULTS})
def read_deletion(request: HttpRequest, deletion_id: uuid.UUID) -> dict[str, Any]:
    row = Deletion.objects.filter(pk=deletion_id).first()
    if row is None:
        raise Problem(404, "unknown", "There is no such deletion.")
    return delete_payloads.show_deletion(row)


@router.get("/payload-classes", auth=Scope("read", "submit"), response={200: dict, **FAULTS})
def list_classes(request: HttpRequest) -> dict[str, Any]:
    """What the class of a payload decides."""
    return {"classes": [{"payload_class": name, **asdict(rule)} for name, rule in RULES.items()]}

"""Who did what, and was it allowed?"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from workers.models import JournalEntry

from ..access.door import Scope
from .paging import page_document, page_of
from .problems import Problem
from .schemas import ProblemDocument

router = Router(tags=["journal"])
FAULTS = dict.fromkeys((401, 403, 422, 503), ProblemDocument)


@router.get("/journal", auth=Scope("read"), response={200: dict, **FAULTS})
def read_journal(
    request: HttpRequest,
    actor: str | None = None,
    verb: str | None = None,
    outcome: str | None = None,
    search: str | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    if request.auth.tenant is not None and "operate" not in request.auth.scopes:
        raise Problem(403, "forbidden", "A key that only reads does not see the journal.")
    rows = JournalEntry.objects.all()
    for name, value in (("actor", actor), ("verb", verb), ("outcome", outcome)):
        if value:
            rows = rows.filter(**{name: value})
    if search:
        rows = rows.filter(target__icontains=search[:200]) | rows.filter(reason__icontains=search[:200])
    return page_document("entries", page_of(rows, before=before, limit=limit), show_entry)


def show_entry(row: JournalEntry) -> dict[str, Any]:
    return {
        "id": row.pk,
        "at_ms": int(row.at.timestamp() * 1000),
        "actor": row.actor,
        "role": row.role or None,
        "via": row.via,
        "address": row.address or None,
        "verb": row.verb,
        "target": row.target,
        "reason": row.reason,
        "before": row.before,
        "after": row.after,
        "outcome": row.outcome,
    }

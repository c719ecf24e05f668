"""Which keys are there? Make one, revoke one."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from workers.actions import create_key, revoke_key
from workers.models import ApiKey

from ..access.caller import forget_keys
from ..access.door import Scope
from ..queries.engine import open_gate
from .paging import page_document, page_of
from .reading import refuse_header
from .schemas import NewKey, ProblemDocument

router = Router(tags=["keys"])
FAULTS = dict.fromkeys((400, 401, 403, 404, 422), ProblemDocument)


@router.get("/keys", auth=Scope("admin"), response={200: dict, **FAULTS})
def list_keys(request: HttpRequest, before: int | None = None, limit: int | None = None) -> dict[str, Any]:
    """Newest first, revoked ones too."""
    return page_document(
        "keys", page_of(ApiKey.objects.all(), before=before, limit=limit), create_key.show_key
    )


@router.post("/keys", auth=Scope("admin"), response={201: dict, **FAULTS})
def make_key(request: HttpRequest, wanted: NewKey) -> HttpResponse:
    """The key is in this answer and nowhere else; sent again, it makes another."""
    refuse_header(
        request,
        "Idempotency-Key",
        "a key is kept nowhere, so no answer with one can be given twice: make another and revoke the first",
    )
    result = create_key.execute(request.auth.actor, **wanted.dict())
    return HttpResponse(json.dumps(result.data), status=201, content_type="application/json")


@router.delete("/keys/{key_id}", auth=Scope("admin"), response={200: dict, **FAULTS})
def end_key(request: HttpRequest, key_id: int) -> dict[str, Any]:
    ended = revoke_key.execute(request.auth.actor, store=open_gate(), key_id=key_id).data
    forget_keys()
    return ended

"""Where does a ticket stand in a queue's waiting room?"""

from __future__ import annotations

import json
import random

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..access.door import Scope
from ..queries.reach import reach_gate
from .admission import JITTER, tell_ticket
from .problems import Problem, whole_seconds
from .schemas import ProblemDocument

router = Router(tags=["jobs"])


@router.get(
    "/tickets/{ticket}",
    auth=Scope("submit"),
    response={200: dict, 401: ProblemDocument, 403: ProblemDocument, 404: ProblemDocument},
    summary="Where a ticket of a waiting room stands",
)
def read_ticket(request: HttpRequest, ticket: str) -> HttpResponse:
    """Asking keeps the ticket alive. Position 0 has been called: submit now, a place is kept."""
    with reach_gate() as store:
        found = store.read_ticket(ticket, tenant=request.auth.submits_as)
    if found is None:
        raise Problem(
            404, "unknown", "There is no such ticket of yours, or its time is over.", field="ticket"
        )
    seconds = (
        1 if found.position == 0 else whole_seconds(found.retry_after_s * (1 + random.random() * JITTER))
    )
    document = {"queue": found.queue, **tell_ticket(found), "retry_after_s": seconds}
    response = HttpResponse(json.dumps(document), content_type="application/json")
    response["Retry-After"] = str(seconds)
    return response

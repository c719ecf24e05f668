"""Read and set the mode; read what changed it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from workers.actions import set_mode
from workers.actions.gate import redis_now_ms
from workers.models import Transition
from workers.modes.effect import is_over

from ..access.door import Scope
from ..queries.history import show_transition
from ..queries.known_queues import has_policy, known_queues
from ..queries.reach import reach_gate
from ..queries.standing_mode import forget_modes
from .paging import page_document, page_of
from .problems import unknown_queue
from .reading import tell_reason
from .schemas import ModeChange, ProblemDocument

router = Router(tags=["modes"])
FAULTS = dict.fromkeys((401, 403, 404, 422, 503), ProblemDocument)
UNSET = {
    "mode": "normal",
    "since_at_ms": None,
    "by": None,
    "reason": "",
    "until_at_ms": None,
    "until": None,
    "pinned": False,
    "automatic": False,
}


@router.get("/mode", auth=Scope("read"), response={200: dict, **FAULTS})
def read_mode(request: HttpRequest, queue: str | None = None) -> dict[str, Any]:
    """The modes that stand; one whose time is over does not, also before the monitor wrote that down."""
    with reach_gate() as store:
        now_ms, known = redis_now_ms(store), known_queues()
        modes = {scope: row for scope, row in store.read_modes().items() if not is_over(row, now_ms=now_ms)}
    if queue is not None:
        if queue not in known:
            raise unknown_queue(queue, known)
        return {"queue": queue, **UNSET, **modes.get(queue, {})}
    queues = {scope: row for scope, row in modes.items() if scope != set_mode.EVERYWHERE}
    return {"queue": None, **UNSET, **modes.get(set_mode.EVERYWHERE, {}), "queues": queues}


@router.put("/mode", auth=Scope("operate"), response={200: dict, **FAULTS})
def change_mode(request: HttpRequest, change: ModeChange) -> dict[str, Any]:
    with reach_gate() as store:
        result = set_mode.execute(
            request.auth.actor,
            store=store,
            mode=change.mode,
            scope=change.queue or set_mode.EVERYWHERE,
            reason=tell_reason(change.reason),
            until=change.until,
            pinned=change.pinned,
        )
    forget_modes()
    return {"queue": change.queue, **result.data}


@router.get("/transitions", auth=Scope("read"), response={200: dict, **FAULTS})
def transitions(
    request: HttpRequest, scope: str | None = None, before: int | None = None, limit: int | None = None
) -> dict[str, Any]:
    rows = Transition.objects.all()
    if scope:
        rows = rows.filter(scope=scope)
        if scope != set_mode.EVERYWHERE and not has_policy(scope) and not rows.exists():
            raise unknown_queue(scope, known_queues(), status=422, field="scope")
    return page_document("transitions", page_of(rows, before=before, limit=limit), show_transition)

"""The current frame, its history, the tenants and the workers."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from workers.actions.downstreams import standing

from ..access.caller import Caller
from ..access.door import Scope
from ..queries import history
from ..queries.engine import open_gate
from ..queries.frame import narrow_to_tenant, read_frame
from ..queries.known_queues import has_policy, known_queues
from ..queries.reach import reach_gate
from .problems import Problem, unknown_downstream, unknown_queue
from .schemas import ProblemDocument

router = Router(tags=["queues"])
FAULTS = {401: ProblemDocument, 403: ProblemDocument, 503: ProblemDocument}


@router.get("/queues", auth=Scope("read"), response={200: dict, **FAULTS}, summary="The current frame")
def current_frame(request: HttpRequest) -> HttpResponse:
    return _json(frame_for(request.auth))


@router.get("/tenants", auth=Scope("read"), response={200: dict, **FAULTS})
def tenants(request: HttpRequest) -> HttpResponse:
    frame = frame_for(request.auth)
    rows = [row for row in frame.get("tenants") or [] if request.auth.sees(str(row.get("tenant")))]
    return _json({"at_ms": frame["at_ms"], "sampled_ago_ms": frame.get("sampled_ago_ms"), "tenants": rows})


@router.get("/workers", auth=Scope("read"), response={200: dict, **FAULTS})
def workers(request: HttpRequest) -> HttpResponse:
    frame = frame_for(request.auth)
    shown = {
        "at_ms": frame["at_ms"],
        "sampled_ago_ms": frame.get("sampled_ago_ms"),
        "workers": frame.get("workers"),
    }
    return _json(shown)


@router.get("/history", auth=Scope("read"), response={200: dict, 422: ProblemDocument, **FAULTS})
def past(
    request: HttpRequest,
    queue: str | None = None,
    metric: str | None = None,
    since: str | None = None,
    until: str | None = None,
    step: int | None = None,
    downstream: str | None = None,
    every: int | None = Query(None, alias="all"),
) -> HttpResponse:
    """One metric of one queue as points, a downstream in columns, or with `all=1` what a page needs."""
    span = history.read_span(since, until, now_ms=open_gate().clock.now_ms())
    if every:
        return _json(history.everything(span, step_s=step))
    if downstream:
        found = history.calls(span, downstream=downstream, step_s=step)
        if downstream not in standing() and not any(map(any, found["metrics"].values())):
            raise unknown_downstream(downstream, standing(), status=422, field="downstream")
        return _json(found)
    if not metric:
        raise Problem(422, "invalid", "Name a metric, or ask for all=1.", field="metric")
    if metric not in history.METRICS:
        raise Problem(422, "invalid", f"metric must be one of {', '.join(history.METRICS)}.", field="metric")
    if not queue:
        raise Problem(422, "invalid", "Name a queue.", field="queue")
    found = history.points(span, queue=queue, metric=metric, step_s=step)
    if not has_policy(queue) and all(value is None for _, value in found["points"]):
        raise unknown_queue(queue, known_queues(), status=422)
    return _json(found)


def frame_for(caller: Caller) -> dict[str, Any]:
    with reach_gate() as store:
        frame = read_frame(store)
    if frame is None:
        raise Problem(
            503,
            "unavailable",
            "No monitor has taken a sample yet.",
            retry_after_s=2,
            extra={"why": "no_sample"},
        )
    if caller.tenant is not None and "operate" not in caller.scopes:
        return narrow_to_tenant(frame, caller.tenant)
    return frame


def _json(document: Any) -> HttpResponse:
    return HttpResponse(
        json.dumps(document, ensure_ascii=False, allow_nan=False), content_type="application/json"
    )

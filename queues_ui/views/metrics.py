"""What does Prometheus scrape? The newest frame; from this machine freely, else with a key that may read."""

from __future__ import annotations

import ipaddress

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from workers.exceptions import StoreUnavailable

from ..access.caller import address_of
from ..access.door import Scope
from ..api.problems import Problem, problem_response
from ..queries.exposition import exposition
from ..queries.frame import read_frame
from ..queries.reach import reach_gate

may_read = Scope("read")


@require_safe
def show_metrics(request: HttpRequest) -> HttpResponse:
    if not _is_local(request):
        try:
            may_read(request)
        except Problem as problem:
            return problem_response(problem)
    try:
        with reach_gate() as store:
            frame = read_frame(store)
        body = exposition(frame)
    except StoreUnavailable as fault:
        body = exposition(None, why_none=fault.reason)
    return HttpResponse(body, content_type=CONTENT_TYPE_LATEST)


def _is_local(request: HttpRequest) -> bool:
    """From loopback and not on somebody's behalf: behind a proxy everyone would come from loopback."""
    if request.META.get("HTTP_X_FORWARDED_FOR") or request.META.get("HTTP_FORWARDED"):
        return False
    address = address_of(request)
    try:
        return not address or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False

"""What is told while the database is away? At once that it is, and what goes on without it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from ..api.problems import Problem, problem_response
from .desk import DatabaseAway, desk

RETRY_S: Final = 5
PROBES: Final = ("/healthz", "/readyz", "/metrics")
#: With a key that was known before, these are answered from Redis alone.
FROM_REDIS: Final = ("/api/v1/jobs", "/api/v1/tasks", "/api/v1/queues", "/api/v1/tenants", "/api/v1/workers")


class DatabaseAtHand:
    """Asks before a view does: a driver that waits for a database that hangs gives up never."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if needs_database(request):
            try:
                desk.ensure()
            except DatabaseAway as fault:
                return tell_away(request, fault)
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, fault: Exception) -> HttpResponse | None:
        """It went away in the middle of a view."""
        return tell_away(request, fault) if isinstance(fault, (OperationalError, InterfaceError)) else None


def needs_database(request: HttpRequest) -> bool:
    if request.path in PROBES:
        return False
    return not (request.META.get("HTTP_AUTHORIZATION") and request.path.startswith(FROM_REDIS))


def tell_away(request: HttpRequest, fault: Exception) -> HttpResponse:
    since = datetime.fromtimestamp(desk.since or time.time(), UTC)
    if request.path.startswith("/api/"):
        return problem_response(
            Problem(
                503,
                "unavailable",
                f"The database does not answer (since {since:%H:%M:%S} UTC). Nothing was changed.",
                retry_after_s=RETRY_S,
                extra={"why": "database"},
            )
        )
    # Without the request: its user and its session are in the database.
    page = render_to_string(
        "away.html", {"since": since, "retry_s": RETRY_S, "installation": settings.SLUICEGATE_INSTALLATION}
    )
    return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_S)})

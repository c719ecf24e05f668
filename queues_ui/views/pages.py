"""Which page is at which address? Each is a template; its figures come from the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from ..access.caller import role_of

PAGES: Final = {
    "": "room.html",
    "queues/": "pages/queues.html",
    "jobs/": "pages/jobs.html",
    "quarantine/": "pages/quarantine.html",
    "alerts/": "pages/alerts.html",
    "audit/": "pages/journal.html",
    "policies/": "pages/policies.html",
    "contracts/": "pages/contracts.html",
    "workers/": "pages/workers.html",
    "tenants/": "pages/tenants.html",
    "privacy/": "pages/privacy.html",
    "downstreams/": "pages/downstreams.html",
}

View = Callable[..., HttpResponse]


def _page_view(template: str) -> View:
    @require_safe
    @login_required
    @ensure_csrf_cookie
    def show_page(request: HttpRequest, item: str = "") -> HttpResponse:
        context = {
            "role": role_of(request.user),
            "installation": settings.SLUICEGATE_INSTALLATION,
            "gate": settings.SLUICEGATE_GATE,
            "item": item,
        }
        return render(request, template, context)

    return show_page


# A page of many takes one item's name behind it, so that a queue, a job or an alert has an address.
urlpatterns = [
    route
    for address, template in PAGES.items()
    for route in (
        path(address, _page_view(template), name=address.rstrip("/") or "room"),
        *([path(f"{address}<path:item>/", _page_view(template))] if address else []),
    )
]

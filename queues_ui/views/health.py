"""Is this process alive, and could the gate accept?"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from workers.exceptions import StoreUnavailable
from workers.store.durability import find_unmet

from ..access.desk import DatabaseAway, desk
from ..queries.reach import BLOCKING, reach_gate


@require_safe
def is_alive(request: HttpRequest) -> HttpResponse:
    """Asks nothing of anybody: a dead Redis is no reason to restart this process."""
    return HttpResponse("alive\n", content_type="text/plain")


@require_safe
def is_ready(request: HttpRequest) -> HttpResponse:
    """The gate goes on without the database; a process that never reached it knows no key."""
    redis, detail, durability = _redis()
    checks = {"redis": redis, "database": _database()}
    ready = redis == "ok" and (checks["database"] == "ok" or desk.has_served)
    response = JsonResponse(
        {"ready": ready, **checks, **({"detail": detail} if detail else {}), **durability},
        status=200 if ready else 503,
    )
    if not ready:
        response["Retry-After"] = "2"
    return response


def _redis() -> tuple[str, str, dict[str, str]]:
    try:
        with reach_gate() as store:
            health = store.health()
            if health.get("state") in BLOCKING:
                raise StoreUnavailable(str(health["state"]), str(health.get("detail") or ""))
    except StoreUnavailable as fault:
        return fault.reason, fault.detail, {}
    told = {"durability": str(health.get("durability"))}
    if unmet := find_unmet(settings.SLUICEGATE_DURABILITY, health):
        told["durability_unmet"] = unmet
    return str(health.get("state")), str(health.get("detail") or ""), told


def _database() -> str:
    try:
        desk.ensure()
    except DatabaseAway:
        return "away"
    return "ok"

"""What fired, who looks after it, and which rules watch."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja import Router

from workers.actions import acknowledge_alert, change_alert_rule, snooze_alert
from workers.actions.moments import read_moment
from workers.models import Alert, AlertRule

from ..access.door import Scope
from ..queries.engine import open_gate
from ..queries.history import show_alert
from ..queries.known_queues import has_policy, known_queues
from .paging import page_document, page_of
from .problems import Problem, unknown_queue
from .schemas import BODY, Note, ProblemDocument, Snooze

router = Router(tags=["alerts"])
FAULTS = dict.fromkeys((401, 403, 404, 422, 503), ProblemDocument)


@router.get("/alerts", auth=Scope("read"), response={200: dict, **FAULTS})
def list_alerts(
    request: HttpRequest,
    state: str = "all",
    queue: str | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Newest first; `state` is firing, cleared or all."""
    rows = Alert.objects.select_related("rule").prefetch_related("deliveries")
    if state in ("firing", "cleared"):
        rows = rows.filter(cleared_at_ms__isnull=state == "firing")
    elif state != "all":
        raise Problem(422, "invalid", "state must be firing, cleared or all.", field="state")
    if queue:
        rows = rows.filter(queue=queue)
        # An alert outlives its queue's policy; where there is neither, no alerts would be no answer.
        if not has_policy(queue) and not rows.exists():
            raise unknown_queue(queue, known_queues(), status=422)
    page = page_of(rows, before=before, limit=limit)
    firing = Alert.objects.filter(cleared_at_ms__isnull=True).count()
    return page_document("alerts", page, _with_deliveries, firing=firing)


@router.get("/alerts/rules", auth=Scope("read"), response={200: dict, **FAULTS})
def list_rules(request: HttpRequest) -> dict[str, Any]:
    return {"rules": [change_alert_rule.show_rule(rule) for rule in AlertRule.objects.all()]}


@router.put("/alerts/rules", auth=Scope("operate"), response={200: dict, **FAULTS})
def write_rules(request: HttpRequest, rules: dict[str, Any] | list[dict[str, Any]] = BODY) -> dict[str, Any]:
    """One rule by its name, a list, or `{"rules": [...]}`; fields left out stay, rules left out too.

    `{"name": ..., "remove": true}` removes one.
    """
    rows = rules if isinstance(rules, list) else rules.get("rules", [rules])
    if not isinstance(rows, list) or not 0 < len(rows) <= 100:
        raise Problem(422, "invalid", "Give 1 to 100 rules.", field="rules")
    for row in rows:
        changes = dict(row) if isinstance(row, dict) else {}
        name = changes.pop("name", None)
        if not isinstance(name, str) or not 0 < len(name) <= 100:
            raise Problem(422, "invalid", "A rule needs a name of 1 to 100 characters.", field="name")
        reason, remove = changes.pop("reason", ""), changes.pop("remove", False)
        if not isinstance(reason, str):
            raise Problem(422, "invalid", "reason must be a text.", field="reason")
        if not isinstance(remove, bool):
            raise Problem(422, "invalid", "remove must be true or false.", field="remove")
        change_alert_rule.execute(
            request.auth.actor,
            name=name,
            changes=changes,
            allowed_hosts=settings.SLUICEGATE_ALERT_HOSTS,
            remove=remove,
            reason=reason,
        )
    return list_rules(request)


@router.post("/alerts/{alert_id}/acknowledge", auth=Scope("operate"), response={200: dict, **FAULTS})
def acknowledge(request: HttpRequest, alert_id: int, note: Note | None = None) -> dict[str, Any]:
    now_ms = open_gate().clock.now_ms()
    text = note.note if note else ""
    return acknowledge_alert.execute(request.auth.actor, alert_id=alert_id, now_ms=now_ms, note=text).data


@router.post("/alerts/{alert_id}/snooze", auth=Scope("operate"), response={200: dict, **FAULTS})
def snooze(request: HttpRequest, alert_id: int, wanted: Snooze) -> dict[str, Any]:
    now_ms = open_gate().clock.now_ms()
    until = read_moment(wanted.until, field="until")
    if wanted.for_s is not None:
        until = now_ms + round(wanted.for_s * 1000)
    if until is None:
        raise Problem(422, "invalid", "Say until when, or for how many seconds.", field="until")
    return snooze_alert.execute(
        request.auth.actor, alert_id=alert_id, until_at_ms=until, now_ms=now_ms, note=wanted.note
    ).data


def _with_deliveries(alert: Alert) -> dict[str, Any]:
    sent = [
        {
            "target": row.target,
            "at_ms": int(row.sent_at.timestamp() * 1000),
            "ok": row.ok,
            "detail": row.detail,
        }
        for row in alert.deliveries.all()[:10]
    ]
    return {**show_alert(alert), "deliveries": sent}

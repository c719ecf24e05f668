"""Acknowledge an alert: somebody looks after it."""

from __future__ import annotations

from typing import Final

from ..models import Alert
from .actor import Actor, NotPossible, Result
from .journal import require_role, write_entry

VERB: Final = "acknowledge_alert"


def execute(actor: Actor, *, alert_id: int, now_ms: int, note: str = "") -> Result:
    require_role(actor, "operator", VERB, target=str(alert_id), reason=note)
    # Conditional, so that of two who press at once the first is named.
    first = Alert.objects.filter(pk=alert_id, acknowledged_at_ms__isnull=True).update(
        acknowledged_by=actor.name, acknowledged_at_ms=now_ms
    )
    alert = Alert.objects.select_related("rule").filter(pk=alert_id).first()
    if alert is None:
        raise NotPossible("unknown", "There is no such alert.", status=404)
    if first:
        write_entry(
            actor,
            VERB,
            target=f"{alert.rule.name} {alert.queue}".strip(),
            reason=note,
            after={"alert": alert.pk},
        )
    data = {
        "id": alert.pk,
        "acknowledged_by": alert.acknowledged_by,
        "acknowledged_at_ms": alert.acknowledged_at_ms,
    }
    return Result(VERB, str(alert_id), data)

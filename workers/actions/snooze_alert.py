"""Snooze an alert: no message about it until a stated time."""

from __future__ import annotations

from typing import Final

from ..models import Alert
from .actor import Actor, NotPossible, Result
from .journal import require_role, write_entry

VERB: Final = "snooze_alert"
LONGEST_MS: Final = 7 * 86_400_000


def execute(actor: Actor, *, alert_id: int, until_at_ms: int, now_ms: int, note: str = "") -> Result:
    require_role(actor, "operator", VERB, target=str(alert_id), reason=note)
    if not now_ms < until_at_ms <= now_ms + LONGEST_MS:
        raise NotPossible(
            "invalid", "An alert is snoozed for at most a week, until a time to come.", field="until"
        )
    alert = Alert.objects.select_related("rule").filter(pk=alert_id).first()
    if alert is None:
        raise NotPossible("unknown", "There is no such alert.", status=404)
    before = alert.snoozed_until_at_ms
    alert.snoozed_until_at_ms = until_at_ms
    alert.save(update_fields=["snoozed_until_at_ms"])
    write_entry(
        actor,
        VERB,
        target=f"{alert.rule.name} {alert.queue}".strip(),
        reason=note,
        before={"snoozed_until_at_ms": before},
        after={"snoozed_until_at_ms": until_at_ms},
    )
    return Result(VERB, str(alert_id), {"id": alert.pk, "snoozed_until_at_ms": until_at_ms})

"""Change, add or remove a rule that watches the queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db import transaction

from ..alerts.measures import GATE_FAILED
from ..models import AlertRule
from .actor import Actor, NotPossible, Result
from .alert_targets import check_targets, redact
from .change_policy import newest_version, newest_versions
from .journal import require_role, write_entry
from .naming import tell_no_queue

VERB: Final = "change_alert_rule"
SEVERITIES: Final = ("info", "warning", "critical")
MOST: Final = 1e15
NUMBERS: Final = ("threshold", "clear_threshold", "for_s")
FIELDS: Final = ("name", "queue", "measure", *NUMBERS, "severity", "enabled", "targets", "runbook")
MEASURES: Final = tuple(word for word, _ in AlertRule.MEASURES)


def execute(
    actor: Actor,
    *,
    name: str,
    changes: Mapping[str, Any],
    allowed_hosts: list[str] | None = None,
    remove: bool = False,
    reason: str = "",
) -> Result:
    require_role(actor, "operator", VERB, target=name, reason=reason)
    with transaction.atomic():
        rule = AlertRule.objects.select_for_update().filter(name=name).first()
        before = show_rule(rule) if rule else None
        if remove:
            if rule is None:
                raise NotPossible("unknown", f"There is no rule {name!r}.", status=404)
            rule.delete()
            write_entry(actor, VERB, target=name, reason=reason, before=before, after=None)
            return Result(VERB, name, {"name": name, "removed": True})
        rule = rule or AlertRule(name=name)
        _apply(actor, rule, changes, allowed_hosts or [])
        rule.save()
        after = show_rule(rule)
        write_entry(actor, VERB, target=name, reason=reason, before=before, after=after)
    return Result(VERB, name, after)


def show_rule(rule: AlertRule) -> dict[str, Any]:
    """A rule without the secrets in its targets."""
    return {
        "name": rule.name,
        "queue": rule.queue or None,
        "measure": rule.measure,
        "threshold": rule.threshold,
        "clear_threshold": rule.clear_threshold,
        "for_s": rule.for_s,
        "severity": rule.severity,
        "enabled": rule.enabled,
        "targets": [redact(target) for target in rule.targets],
        "runbook": rule.runbook,
    }


def _apply(actor: Actor, rule: AlertRule, changes: Mapping[str, Any], allowed_hosts: list[str]) -> None:
    for field, value in changes.items():
        if field not in FIELDS:
            raise NotPossible("invalid", f"{field} is not a field of a rule.", field=field)
        if field == "targets":
            if not isinstance(value, list):
                value = check_targets(actor, [] if value is None else value, allowed_hosts=allowed_hosts)
            # What was shown redacted comes back redacted: that means "as it was".
            kept = {redact(target): target for target in rule.targets}
            value = [kept.get(target, target) if isinstance(target, str) else target for target in value]
            new = [target for target in value if target not in rule.targets]
            check_targets(actor, new, allowed_hosts=allowed_hosts)
            checked = check_targets(Actor(actor.name, "admin", actor.via), value, allowed_hosts=allowed_hosts)
            rule.targets = checked
        elif field == "name":
            if value != rule.name:
                raise NotPossible("invalid", "A rule keeps its name.", field="name")
        else:
            setattr(rule, field, _read(field, value))
            if field == "queue" and rule.queue and newest_version(rule.queue) is None:
                # It would watch nothing, for ever, and look as if all were well.
                raise NotPossible("unknown_queue", tell_no_queue(rule.queue, newest_versions()), field=field)
    if not rule.measure:
        raise NotPossible("invalid", f"measure must be one of {', '.join(MEASURES)}.", field="measure")
    if rule.measure == GATE_FAILED and rule.queue:
        raise NotPossible("invalid", f"{GATE_FAILED} watches the whole gate: leave queue out.", field="queue")
    if rule.threshold is None:
        raise NotPossible("invalid", "threshold is missing.", field="threshold")
    if rule.clear_threshold is None:
        rule.clear_threshold = rule.threshold
    if rule.clear_threshold > rule.threshold:
        raise NotPossible("invalid", "clear_threshold must not be above threshold.", field="clear_threshold")


def _read(field: str, value: Any) -> Any:
    if field in NUMBERS:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST:
            raise NotPossible("invalid", f"{field} must be a number from 0 to {MOST:,.0f}.", field=field)
        return float(value)
    if field == "enabled":
        if not isinstance(value, bool):
            raise NotPossible("invalid", "enabled must be true or false.", field=field)
        return value
    if field in ("measure", "severity"):
        words = MEASURES if field == "measure" else SEVERITIES
        if value not in words:
            raise NotPossible("invalid", f"{field} must be one of {', '.join(words)}.", field=field)
        return value
    if value is None and field == "queue":
        return ""
    if not isinstance(value, str) or len(value) > (200 if field == "queue" else 10_000):
        raise NotPossible("invalid", f"{field} must be a text.", field=field)
    return value

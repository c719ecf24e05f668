"""Which alerts fire and clear, and is everybody told who should be?"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.db import DatabaseError, IntegrityError, close_old_connections, transaction

from ..alerts.delivery import Courier, Delivered, Message, redact
from ..alerts.measures import read_values
from ..alerts.rules import Rule, Watch, evaluate
from ..alerts.sentences import say_alert
from ..models import Alert, AlertDelivery, AlertRule

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 1.0
GONE = "the rule is off or gone"
Latest = Callable[[], tuple[dict[str, Any], dict[str, Any]] | None]


class Alerter:
    """Rules against the newest frame. Open alerts live in the database: a new leader goes on with them."""

    def __init__(self, latest: Latest, *, installation: str, courier: Courier | None = None) -> None:
        self._latest = latest
        self._installation = installation
        self.courier = courier or Courier(record_on_own_connection)
        self._watches: dict[tuple[int, str], Watch] = {}
        self._seen_at_ms = 0
        self._adopted = False

    def tick(self) -> bool:
        found = self._latest()
        if found is None or int(found[0]["at_ms"]) == self._seen_at_ms:
            return False
        frame = found[0]
        now_ms = self._seen_at_ms = int(frame["at_ms"])
        rules = {row.pk: row for row in AlertRule.objects.filter(enabled=True)}
        if not self._adopted:
            self._adopt(rules)
            self._adopted = True
        seen = set()
        for row in rules.values():
            rule = as_rule(row)
            for queue, value in read_values(rule, frame):
                key = (rule.id, queue)
                seen.add(key)
                before = self._watches.get(key, Watch())
                watch, act = evaluate(rule, before, value, now_ms=now_ms)
                if act:
                    self._act(act, row, queue, value, now_ms=now_ms)
                self._watches[key] = watch  # after the act: what the database refused is tried again
        for key in [key for key in self._watches if key not in seen]:
            if self._watches[key].firing:
                self._close(key[0], key[1], now_ms=now_ms)
            del self._watches[key]
        return False

    def _adopt(self, rules: Mapping[int, AlertRule]) -> None:
        """Takes over what another leader left open, and tells the targets that it did not reach."""
        for alert in Alert.objects.filter(cleared_at_ms__isnull=True).select_related("rule"):
            self._watches[(alert.rule_id, alert.queue)] = Watch(firing=True, peak=alert.peak)
            if alert.rule_id in rules:
                told = set(
                    alert.deliveries.filter(detail__startswith="fired").values_list("target", flat=True)
                )
                self._tell(alert, alert.rule, "fired", skip=told)

    def _act(self, act: str, row: AlertRule, queue: str, value: float | None, *, now_ms: int) -> None:
        if act == "fire":
            try:
                with transaction.atomic():
                    alert = Alert.objects.create(
                        rule=row,
                        queue=queue,
                        fired_at_ms=now_ms,
                        value=value,
                        threshold=row.threshold,
                        peak=value,
                    )
            except IntegrityError:
                return  # open already: another leader was first
            log.warning("alert %s", say_alert(row.measure, queue, value, row.threshold))
            self._tell(alert, row, "fired")
        elif act == "clear":
            for alert in Alert.objects.filter(rule=row, queue=queue, cleared_at_ms__isnull=True):
                alert.cleared_at_ms = now_ms
                alert.save(update_fields=["cleared_at_ms"])
                if alert.snoozed_until_at_ms is None or alert.snoozed_until_at_ms <= now_ms:
                    self._tell(alert, row, "cleared")
        elif act == "peak":
            Alert.objects.filter(rule=row, queue=queue, cleared_at_ms__isnull=True).update(peak=value)

    def _close(self, rule_id: int, queue: str, *, now_ms: int) -> None:
        closed = Alert.objects.filter(rule_id=rule_id, queue=queue, cleared_at_ms__isnull=True).update(
            cleared_at_ms=now_ms
        )
        if closed:
            log.info("alert of rule %s on %s closed: %s", rule_id, queue or "the gate", GONE)

    def _tell(self, alert: Alert, row: AlertRule, kind: str, *, skip: set[str] | None = None) -> None:
        said = say_alert(
            row.measure, alert.queue, alert.peak if kind == "cleared" else alert.value, row.threshold
        )
        title = f"{self._installation}: {row.name} {kind}"
        body = f"{said}\n{row.runbook}" if kind == "fired" and row.runbook else said
        for target in row.targets:
            if skip and redact(target) in skip:
                continue
            self.courier.post(Message(alert.pk, target, title, body, kind))


def as_rule(row: AlertRule) -> Rule:
    return Rule(
        row.pk, row.name, row.queue, row.measure, row.threshold, row.clear_threshold, row.for_s, row.severity
    )


def record_on_own_connection(delivered: Delivered) -> None:
    """Called on the courier's threads; each has a database connection of its own."""
    try:
        record_delivery(delivered)
    finally:
        close_old_connections()


def record_delivery(delivered: Delivered) -> None:
    try:
        AlertDelivery.objects.create(
            alert_id=delivered.message.alert_id,
            target=redact(delivered.message.target),
            ok=delivered.ok,
            detail=delivered.detail[:2000],
        )
    except DatabaseError as exc:
        log.warning("a delivery was not written down: %s", exc)

"""What does the database say that a frame shows? Read apart, so that a slow database delays no frame."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

from django.db import Error
from django.db.models import Count, Max, Min, Sum

from ..actions.note_loss import newest_loss
from ..alerts.sentences import say_alert
from ..metrics.loss import say_loss
from ..metrics.objective import Point
from ..metrics.reasons import explain_nulls
from ..models import Alert, PolicyVersion, QuarantinedJob, ReplayBatch, Transition
from ..privacy.classes import handling_of
from .database_health import READING, DatabaseHealth
from .frame.inputs import EVENTS_SHOWN, DatabaseFacts
from .promises import read_points

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 2.0  # a dozen queries, the dearest step of the monitor
CAUSES_SHOWN = 8
TREND_STEPS, TREND_STEP_MS = 12, 300_000  # an hour in steps of five minutes
TREND_ROWS = 5_000  # of the last hour; beyond it the trend is a lower bound
LABEL_CHARS = 160
STALE_AFTER_S = 15.0
RESTS, LONGEST_REST_S = 9, 8.0  # a reading that takes long is made seldom: a tenth of the time at most


class Facts:
    """The last reading; `current` never waits."""

    def __init__(self, health: DatabaseHealth | None = None) -> None:
        self.health = health or DatabaseHealth()
        self._facts = DatabaseFacts(unknown="not read yet")
        self._read_at = 0.0
        self._rest_until = 0.0
        self._promises: list[Point] | None = None

    def tick(self) -> bool:
        began = time.monotonic()
        if began < self._rest_until:
            return False
        try:
            with self.health.attempt(READING):
                now_ms = int(time.time() * 1000)
                if self._promises is None:
                    self._promises = read_points(now_ms)
                self._facts = replace(read_facts(now_ms), promises=self._promises)
            self._read_at = time.monotonic()
            self._rest_until = self._read_at + min(LONGEST_REST_S, RESTS * (self._read_at - began))
        except Error as exc:
            log.warning("the database was not read: %s", exc)
        return False

    def current(self) -> DatabaseFacts:
        health = self.health.current()
        if self._read_at and time.monotonic() - self._read_at > STALE_AFTER_S:
            return DatabaseFacts(unknown="the database has not answered", health=health)
        return replace(self._facts, health=health)


def read_facts(now_ms: int) -> DatabaseFacts:
    alerts = [alert_item(alert) for alert in open_alerts()]
    last = Alert.objects.order_by("-fired_at_ms").values_list("fired_at_ms", flat=True).first()
    return DatabaseFacts(
        loss=newest_loss(),
        alerts=alerts,
        last_alert_at_ms=last,
        quarantine=read_quarantine(now_ms),
        events=read_events(),
    )


def open_alerts() -> list[Alert]:
    return list(
        Alert.objects.filter(cleared_at_ms__isnull=True).select_related("rule").order_by("-fired_at_ms")[:100]
    )


def alert_item(alert: Alert) -> dict[str, Any]:
    rule = alert.rule
    threshold = rule.threshold if alert.threshold is None else alert.threshold
    item: dict[str, Any] = {
        "id": alert.pk,
        "rule": rule.name,
        "queue": alert.queue or None,
        "measure": rule.measure,
        "severity": rule.severity,
        "value": alert.value,
        "peak": alert.peak,
        "threshold": threshold,
        "fired_at_ms": alert.fired_at_ms,
        "acknowledged_by": alert.acknowledged_by or None,
        "snoozed_until_at_ms": alert.snoozed_until_at_ms,
        "runbook": rule.runbook,
        "sentence": say_alert(
            rule.measure, alert.queue, alert.peak if alert.peak is not None else alert.value, threshold
        ),
    }
    reasons = {"value": "not measured", "peak": "not measured", "snoozed_until_at_ms": "not snoozed"}
    return explain_nulls(item, reasons)


def read_quarantine(now_ms: int) -> dict[str, Any]:
    held = QuarantinedJob.objects.filter(state=QuarantinedJob.HELD).order_by()
    by_queue = {
        row["queue"]: {
            "count": row["n"],
            "bytes": row["size"] or 0,
            "oldest_age_ms": max(0, now_ms - row["oldest"]) if row["oldest"] else 0,
            "oldest_at_ms": row["oldest"],
        }
        for row in held.values("queue").annotate(
            n=Count("*"), size=Sum("bytes"), oldest=Min("quarantined_at_ms")
        )
    }
    oldest = [part["oldest_at_ms"] for part in by_queue.values() if part["oldest_at_ms"] is not None]
    return {
        "count": sum(part["count"] for part in by_queue.values()),
        "bytes": sum(part["bytes"] for part in by_queue.values()),
        "oldest_at_ms": min(oldest) if oldest else None,
        "by_queue": {
            name: {key: value for key, value in part.items() if key != "oldest_at_ms"}
            for name, part in by_queue.items()
        },
        "causes": read_causes(held, now_ms),
    }


def read_causes(held: Any, now_ms: int) -> list[dict[str, Any]]:
    counted = held.values("fingerprint").annotate(n=Count("*"), newest=Max("pk"))
    top = list(counted.order_by("-n", "fingerprint")[:CAUSES_SHOWN])
    if not top:
        return []
    trends = {row["fingerprint"]: [0] * TREND_STEPS for row in top}
    since_ms = now_ms - TREND_STEPS * TREND_STEP_MS
    recent = held.filter(fingerprint__in=list(trends), quarantined_at_ms__gte=since_ms).values_list(
        "fingerprint", "quarantined_at_ms"
    )
    for name, at_ms in recent[:TREND_ROWS]:
        trends[name][min(TREND_STEPS - 1, max(0, (at_ms - since_ms) // TREND_STEP_MS))] += 1
    # The newest of each by the index alone, and then those few rows: rows are wide.
    words = ("task", "queue", "reason", "error_type", "message", "payload_class")
    newest = QuarantinedJob.objects.only(*words).in_bulk([row["newest"] for row in top])
    causes = []
    for row in top:
        job = newest.get(row["newest"])
        if job is None:
            continue  # gone meanwhile
        said = job.message if handling_of(job.payload_class).error_text else ""
        told = f"{job.error_type}: {said}" if said else job.error_type or job.reason
        causes.append(
            {
                "fingerprint": row["fingerprint"],
                "count": row["n"],
                "label": told.split("\n", 1)[0][:LABEL_CHARS],
                "task": job.task,
                "queue": job.queue,
                "reason": job.reason,
                "trend": trends[row["fingerprint"]],
            }
        )
    return causes


def read_events() -> list[dict[str, Any]]:
    """The newest of everything that happened to the gate itself, newest first."""
    events: list[dict[str, Any]] = []
    for row in Transition.objects.order_by("-at_ms", "-id")[:EVENTS_SHOWN]:
        where = "the gate" if row.scope == "*" else row.scope
        because = f": {row.reason}" if row.reason else ""
        events.append(
            {
                "at_ms": row.at_ms,
                "kind": "mode",
                "text": f"{row.by} set {where} from {row.before} to {row.after}{because}",
            }
        )
    for alert in Alert.objects.select_related("rule").order_by("-fired_at_ms")[:EVENTS_SHOWN]:
        item = alert_item(alert)
        events.append(
            {"at_ms": alert.fired_at_ms, "kind": "alert", "text": f"{alert.rule.name}: {item['sentence']}"}
        )
        if alert.cleared_at_ms is not None:
            where = f" ({alert.queue})" if alert.queue else ""
            events.append(
                {
                    "at_ms": alert.cleared_at_ms,
                    "kind": "cleared",
                    "text": f"{alert.rule.name}{where} is clear",
                }
            )
    for batch in ReplayBatch.objects.order_by("-created_at")[:EVENTS_SHOWN]:
        at_ms = int((batch.finished_at or batch.created_at).timestamp() * 1000)
        events.append(
            {
                "at_ms": at_ms,
                "kind": batch.verb,
                "text": f"{batch.by}: {batch.verb} of {batch.total} jobs is {batch.state}, {batch.done} done",
            }
        )
    for version in PolicyVersion.objects.filter(version__gt=1).order_by("-at")[:EVENTS_SHOWN]:
        events.append(
            {
                "at_ms": int(version.at.timestamp() * 1000),
                "kind": "policy",
                "text": f"{version.by} changed the policy of {version.queue} (version {version.version})",
            }
        )
    loss = newest_loss()
    if loss is not None:
        events.append({"at_ms": loss["found_at_ms"], "kind": "lost", "text": say_loss(loss)})
    return sorted(events, key=lambda event: -event["at_ms"])[:EVENTS_SHOWN]

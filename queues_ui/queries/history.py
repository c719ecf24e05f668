"""What did a metric look like over a span? Gaps stay gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from workers.actions.moments import read_moment
from workers.models import Alert, Sample, Transition

METRICS: Final = (
    "oldest_age_ms",
    "depth",
    "delayed",
    "spilled",
    "in_flight",
    "bytes",
    "cost_ms",
    "offered",
    "accepted",
    "refused",
    "shed",
    "succeeded",
    "failed",
    "degraded",
    "goodput",
    "wait_p50",
    "wait_p95",
    "wait_p99",
    "wait_bins",
    "drain_s",
)
#: Of a downstream.
CALLS: Final = ("limit", "in_flight", "mean_ms", "latency_p50", "latency_p99", "answered", "dropped")
MOST_POINTS: Final = 1500
#: Points of all queues together in one answer; each takes 90 to 200 bytes.
MOST_OF_ALL: Final = 5000
LONGEST_REASON: Final = 200  # characters of a reason beside a chart; the audit has all of it
DEFAULT_SPAN_MS: Final = 15 * 60_000
LONGEST_SPAN_MS: Final = 35 * 86_400_000


@dataclass(frozen=True, slots=True)
class Span:
    since_ms: int
    until_ms: int


def read_span(since: str | None, until: str | None, *, now_ms: int) -> Span:
    """Milliseconds or ISO 8601; a negative `since` counts back from now in seconds."""
    until_ms = read_moment(until, field="until") or now_ms
    if since and since.startswith("-") and since[1:].isdigit():
        since_ms = until_ms - int(since[1:]) * 1000
    else:
        since_ms = read_moment(since, field="since") or until_ms - DEFAULT_SPAN_MS
    return Span(max(since_ms, until_ms - LONGEST_SPAN_MS), until_ms)


def points(span: Span, *, queue: str, metric: str, step_s: int | None) -> dict[str, Any]:
    step, rows = _samples(span, step_s)
    found = [[at_ms, _of(data, queue).get(metric)] for at_ms, data in rows]
    return {"queue": queue, "metric": metric, "step_s": step, "points": _with_gaps(found, step)}


def everything(span: Span, *, step_s: int | None) -> dict[str, Any]:
    step, rows = _samples(span, step_s)
    names = sorted({name for _, data in rows for name in _queues(data)})
    # With many queues each is told in fewer points, the newest among them.
    every = max(1, math.ceil(len(rows) * len(names) / MOST_OF_ALL))
    rows = rows[::-1][::every][::-1]
    return {
        "step_s": step * every,
        "at_ms": [at_ms for at_ms, _ in rows],
        "queues": {
            name: {metric: [_of(data, name).get(metric) for _, data in rows] for metric in METRICS}
            for name in names
        },
        "transitions": [
            {**show_transition(row), "reason": row.reason[:LONGEST_REASON]} for row in _transitions(span)
        ],
        "alerts": [show_alert(row) for row in _alerts(span)],
    }


def calls(span: Span, *, downstream: str, step_s: int | None) -> dict[str, Any]:
    """A downstream's metrics in columns. Of a coarser step: the maxima, and the medians under `median`."""
    step, rows = _samples(span, step_s)

    def columns(part: str) -> dict[str, list[Any]]:
        found = [(data.get(part) or {}).get(downstream) or {} for _, data in rows]
        return {metric: [figures.get(metric) for figures in found] for metric in CALLS}

    shown = {"downstream": downstream, "step_s": step, "at_ms": [at_ms for at_ms, _ in rows]}
    coarse = {"median": columns("downstream_median")} if step > 1 else {}
    return {**shown, "metrics": columns("downstreams"), **coarse}


def show_transition(row: Transition) -> dict[str, Any]:
    return {
        "id": row.pk,
        "at_ms": row.at_ms,
        "scope": row.scope,
        "before": row.before,
        "after": row.after,
        "by": row.by,
        "automatic": row.automatic,
        "pinned": row.pinned,
        "reason": row.reason,
        "measure": row.measure or None,
        "value": row.value,
        "threshold": row.threshold,
        "until": int(row.until) if row.until.isdigit() else row.until or None,
    }


def show_alert(row: Alert) -> dict[str, Any]:
    return {
        "id": row.pk,
        "rule": row.rule.name,
        "measure": row.rule.measure,
        "severity": row.rule.severity,
        "runbook": row.rule.runbook or None,
        "queue": row.queue or None,
        "fired_at_ms": row.fired_at_ms,
        "cleared_at_ms": row.cleared_at_ms,
        "value": row.value,
        "threshold": row.threshold,
        "peak": row.peak,
        "acknowledged_by": row.acknowledged_by or None,
        "acknowledged_at_ms": row.acknowledged_at_ms,
        "snoozed_until_at_ms": row.snoozed_until_at_ms,
    }


def _samples(span: Span, step_s: int | None) -> tuple[int, list[tuple[int, dict[str, Any]]]]:
    """The finest step that keeps the answer small and reaches back to the start of the span."""
    steps = sorted(Sample.objects.order_by().values_list("step_s", flat=True).distinct())
    if not steps:
        return step_s or 1, []
    length_s = max(1, (span.until_ms - span.since_ms) // 1000)
    fit = [step for step in steps if step >= (step_s or 1) and length_s / step <= MOST_POINTS] or steps[-1:]
    reach = {step: _reach_ms(step, span) for step in fit}
    furthest = min(reach.values())
    # A coarser step must tell of clearly more of the span: a young installation has all of it in the finest.
    chosen = next(step for step in fit if reach[step] <= furthest + max(2000 * step, length_s * 100))
    rows = Sample.objects.filter(step_s=chosen, at_ms__gte=span.since_ms, at_ms__lte=span.until_ms).order_by(
        "at_ms"
    )
    return chosen, list(rows.values_list("at_ms", "data")[: MOST_POINTS * 2])


def _reach_ms(step_s: int, span: Span) -> int:
    """From when on a step tells of the span; its end if it tells nothing."""
    oldest = Sample.objects.filter(step_s=step_s).order_by("at_ms").values_list("at_ms", flat=True).first()
    return span.until_ms if oldest is None else max(oldest, span.since_ms)


def _with_gaps(found: list[list[Any]], step_s: int) -> list[list[Any]]:
    """A null where samples are missing, so that no line is drawn over what nobody measured."""
    out: list[list[Any]] = []
    for point in found:
        if out and point[0] - out[-1][0] > 2500 * step_s:
            out.append([out[-1][0] + 1000 * step_s, None])
        out.append(point)
    return out


def _queues(data: dict[str, Any]) -> dict[str, Any]:
    return data.get("queues", {})


def _of(data: dict[str, Any], queue: str) -> dict[str, Any]:
    return _queues(data).get(queue) or {}


def _transitions(span: Span) -> list[Transition]:
    rows = Transition.objects.filter(at_ms__gte=span.since_ms, at_ms__lte=span.until_ms).order_by("-at_ms")
    return list(rows[:200])


def _alerts(span: Span) -> list[Alert]:
    rows = Alert.objects.select_related("rule").filter(fired_at_ms__lte=span.until_ms)
    return [row for row in rows[:200] if row.cleared_at_ms is None or row.cleared_at_ms >= span.since_ms]

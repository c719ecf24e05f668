"""How does Prometheus see the newest frame? Every queue an explicit sample, every label bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from workers.metrics.objective import WINDOWS
from workers.states import CREDITS, REASONS, TICKETS, TOTALS

STALE_AFTER_S: Final = 15.0  # older figures are left out: an absent series is honest, a flat one is not
MOST_TENANTS: Final = 20
OTHER: Final = "other"
GAUGES: Final = (
    ("depth", "jobs", 1, "Jobs that wait and are eligible"),
    ("delayed", "jobs", 1, "Jobs that wait for their due time, and spilled ones"),
    ("spilled", "jobs", 1, "Jobs that stand in the spill until there is room"),
    ("in_flight", "jobs", 1, "Jobs under a lease"),
    ("bytes", "bytes", 1, "Encoded bytes, waiting and delayed"),
    ("cost_ms", "seconds", 1000, "Estimated work that waits"),
    ("oldest_age_ms", "seconds", 1000, "Age of the oldest eligible job"),
    ("parked", "jobs", 1, "Waiting jobs set aside by a cap or a downstream of their own"),
    ("consumers", "workers", 1, "Live workers that take this queue"),
    ("slots", "slots", 1, "Slots of those workers"),
)
#: Gauges inside a part of a queue's row: part, field, name, divisor, text.
PARTS: Final = (
    ("spill", "bytes", "spilled_bytes", 1, "Encoded bytes in the spill; absent where a queue has none"),
    ("spill", "oldest_age_ms", "spill_oldest_age_seconds", 1000, "Age of the longest spilled job"),
    ("objective", "objective_share", "objective_share", 1, "Share of jobs that the completion promise names"),
    ("objective", "attained", "objective_attained_share", 1, "Measured share that kept it, over an hour"),
)
NAMES: Final = {"cost_ms": "cost_seconds", "oldest_age_ms": "oldest_age_seconds"}
ANOMALIES: Final = ("duplicate_deliveries", "tombstone_hits", "ambiguous_completions")
MODES: Final = ("normal", "saturated", "draining", "failed")


def exposition(frame: dict[str, Any] | None, *, why_none: str = "") -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FrameCollector(frame, why_none))
    return generate_latest(registry)


class FrameCollector(Collector):
    def __init__(self, frame: dict[str, Any] | None, why_none: str) -> None:
        self.frame = frame
        self.why_none = why_none

    def collect(self) -> Iterator[Metric]:
        frame = self.frame
        yield _gauge("sluicegate_up", "1 if a frame could be read", [({}, 0 if frame is None else 1)])
        if frame is None:
            return
        age_s = (frame.get("sampled_ago_ms") or 0) / 1000
        yield _gauge(
            "sluicegate_sampled_at",
            "When the frame was sampled, in Unix seconds",
            [({}, frame["at_ms"] / 1000)],
        )
        yield _gauge("sluicegate_sampled_age_seconds", "How long ago that was", [({}, age_s)])
        if age_s > STALE_AFTER_S:
            return
        queues = frame.get("queues") or []
        yield from _queue_gauges(queues)
        yield from _queue_totals(queues)
        yield from _credits_and_buffers(frame, queues)
        yield from _waits(queues)
        yield from _modes(frame, queues)
        yield from _tenants(frame.get("tenants") or [])
        yield from _downstreams(frame.get("downstreams") or [])
        yield from _installation(frame)


def _queue_gauges(queues: list[dict[str, Any]]) -> Iterator[Metric]:
    for field, unit, divisor, text in GAUGES:
        name = NAMES.get(field, field)
        rows = [({"queue": q["name"]}, _number(q.get(field), divisor)) for q in queues]
        yield _gauge(f"sluicegate_queue_{name}", f"{text} ({unit})", rows)
    for bound, divisor in (("count", 1), ("bytes", 1), ("cost_ms", 1000), ("age_s", 1)):
        rows = [({"queue": q["name"]}, _number((q.get("bounds") or {}).get(bound), divisor)) for q in queues]
        name = bound.replace("cost_ms", "cost_seconds").replace("age_s", "age_seconds")
        yield _gauge(f"sluicegate_queue_bound_{name}", "The policy's bound; absent where there is none", rows)
    limits = [
        (
            {
                "queue": q["name"],
                "per": limit["per"],
                "kind": limit["kind"],
                "window_s": f"{limit['window_s']:g}",
            },
            _number(limit["limit"]),
        )
        for q in queues
        for limit in q.get("rate_limits") or ()
    ]
    yield _gauge("sluicegate_queue_rate_limit", "The policy's rate limits: jobs in a window", limits)
    rows = [({"queue": q["name"]}, _number((q.get("share") or {}).get("done"))) for q in queues]
    yield _gauge("sluicegate_queue_share_of_completions", "Of all runs that ended in the last minute", rows)
    for part, field, name, divisor, text in PARTS:
        rows = [({"queue": q["name"]}, _number((q.get(part) or {}).get(field), divisor)) for q in queues]
        yield _gauge(f"sluicegate_queue_{name}", text, rows)
    rows = [({"queue": q["name"]}, _number(q.get("blocked_keys_known"))) for q in queues]
    yield _gauge("sluicegate_queue_blocked_keys", "Ordering keys that hold work back", rows)
    rows = [
        (
            {"queue": q["name"]},
            _number(max((k["oldest_age_ms"] for k in q.get("blocked_keys") or []), default=0), 1000),
        )
        for q in queues
    ]
    yield _gauge(
        "sluicegate_queue_blocked_key_oldest_age_seconds", "Longest that a key holds work back", rows
    )
    rows = [
        (
            {"queue": q["name"], "window": window},
            _number(((q.get("objective") or {}).get("burn_rate") or {}).get(window)),
        )
        for q in queues
        for window in WINDOWS
    ]
    yield _gauge(
        "sluicegate_queue_objective_burn_rate", "How many times faster than allowed jobs are late", rows
    )
    rows = [({"queue": q["name"]}, _number((q.get("drain") or {}).get("seconds"))) for q in queues]
    yield _gauge("sluicegate_queue_drain_modeled_seconds", "Modeled time until the backlog is gone", rows)


def _credits_and_buffers(frame: dict[str, Any], queues: list[dict[str, Any]]) -> Iterator[Metric]:
    for name in CREDITS:
        rows = [({"queue": q["name"]}, _number((q.get("credits") or {}).get(name))) for q in queues]
        if name == "out":
            yield _gauge("sluicegate_credits_out", "Credits that producers hold", rows)
        else:
            yield _counter(f"sluicegate_credits_{name}", f"Credits of producers that were {name}", rows)
    rows = [({"queue": q["name"]}, _number((q.get("credits") or {}).get("producers"))) for q in queues]
    yield _gauge("sluicegate_queue_producers", "Producers whose credits have not run out", rows)
    rows = [({"queue": q["name"]}, _number(q.get("blocked_ms"), 1000)) for q in queues]
    yield _counter("sluicegate_blocked_seconds", "Time that producers have waited for room", rows)
    rooms = [(q, q["waiting_room"]) for q in queues if q.get("waiting_room")]
    held = [
        ({"queue": q["name"], "state": state}, _number(room[state]))
        for q, room in rooms
        for state in ("line", "called")
    ]
    yield _gauge("sluicegate_tickets", "Tickets of waiting rooms that are out", held)
    for name in TICKETS:
        rows = [({"queue": q["name"]}, _number(room[name])) for q, room in rooms]
        yield _counter(f"sluicegate_tickets_{name}", f"Tickets of waiting rooms that were {name}", rows)
    stages: list[tuple[dict[str, str], float | None]] = [
        ({"queue": "*", "stage": "door"}, _number((frame.get("buffers") or {}).get("door")))
    ]
    for q in queues:
        for stage in ("blocked", "spilled", "ready", "delayed", "reserved", "running"):
            stages.append(
                ({"queue": q["name"], "stage": stage}, _number((q.get("buffers") or {}).get(stage)))
            )
    yield _gauge("sluicegate_buffered", "What stands in each buffer on the way; door: requests", stages)


def _queue_totals(queues: list[dict[str, Any]]) -> Iterator[Metric]:
    for field in TOTALS:
        rows = [({"queue": q["name"]}, _number((q.get("totals") or {}).get(field)) or 0.0) for q in queues]
        yield _counter(f"sluicegate_{field}", f"Jobs {field.replace('_', ' ')}", rows)
    reasons: list[tuple[dict[str, str], float | None]] = []
    for q in queues:
        counted = dict.fromkeys((*REASONS, OTHER), 0.0)
        for reason, number in ((q.get("totals") or {}).get("refused_by") or {}).items():
            counted[reason if reason in counted else OTHER] += _number(number) or 0.0
        reasons += [({"queue": q["name"], "reason": reason}, number) for reason, number in counted.items()]
    yield _counter("sluicegate_refused_by_reason", "Refusals by reason", reasons)
    odd = [
        ({"queue": q["name"], "kind": kind}, _number((q.get("anomalies") or {}).get(kind)) or 0.0)
        for q in queues
        for kind in ANOMALIES
    ]
    yield _counter(
        "sluicegate_anomalies",
        "Deliveries after a lost lease, offers of what was cancelled, ends told by a stale holder",
        odd,
    )


def _waits(queues: list[dict[str, Any]]) -> Iterator[Metric]:
    for field, name in (("wait_ms", "wait"), ("service_ms", "service")):
        rows = [
            ({"queue": q["name"], "quantile": quantile}, _number((q.get(field) or {}).get(key), 1000))
            for q in queues
            for key, quantile in (("p50", "0.5"), ("p95", "0.95"), ("p99", "0.99"))
        ]
        yield _gauge(
            f"sluicegate_queue_{name}_seconds", f"Percentiles of {name} time over the last minute", rows
        )


def _modes(frame: dict[str, Any], queues: list[dict[str, Any]]) -> Iterator[Metric]:
    rows = [({"queue": "*", "mode": mode}, float(frame.get("mode") == mode)) for mode in MODES]
    for q in queues:
        rows += [({"queue": q["name"], "mode": mode}, float(q.get("mode") == mode)) for mode in MODES]
    yield _gauge("sluicegate_mode", "1 for the mode in force; * is the installation", rows)


def _tenants(tenants: list[dict[str, Any]]) -> Iterator[Metric]:
    depth: dict[str, float] = {}
    for row in tenants:
        name = str(row.get("tenant"))
        depth[name] = depth.get(name, 0.0) + (_number(row.get("depth")) or 0.0)
    ranked = sorted(depth.items(), key=lambda item: (item[0] == OTHER, -item[1], item[0]))
    shown = dict(ranked[:MOST_TENANTS])
    for _, number in ranked[MOST_TENANTS:]:
        shown[OTHER] = shown.get(OTHER, 0.0) + number
    yield _gauge(
        "sluicegate_tenant_depth",
        "Jobs that wait, by tenant: the largest, and the rest as other",
        [({"tenant": name[:100]}, number) for name, number in shown.items()],
    )


def _downstreams(downstreams: list[dict[str, Any]]) -> Iterator[Metric]:
    if not downstreams:
        return
    for field, text in (
        ("limit", "Calls at a time that the limit allows now"),
        ("in_flight", "Jobs that call it"),
    ):
        rows = [({"downstream": d["name"]}, _number(d.get(field))) for d in downstreams]
        yield _gauge(f"sluicegate_downstream_{field}", text, rows)
    for field, text in (
        ("answered", "Calls answered"),
        ("dropped", "Calls turned away or timed out"),
        ("cuts", "Times that the limit was cut"),
        ("raises", "Times that the limit was raised"),
    ):
        rows = [({"downstream": d["name"]}, _number(d.get(field))) for d in downstreams]
        yield _counter(f"sluicegate_downstream_{field}", text, rows)
    for field, name, text in (
        ("latency_ms", "latency", "Percentiles of latency over the last minute"),
        ("gated_ms", "gated", "The same with the wait at the gate before it"),
    ):
        shares = (("p50", "0.5"), ("p95", "0.95"), ("p99", "0.99"))
        quantiles = [
            ({"downstream": d["name"], "quantile": quantile}, _number((d.get(field) or {}).get(key), 1000))
            for d in downstreams
            for key, quantile in shares
        ]
        yield _gauge(f"sluicegate_downstream_{name}_seconds", text, quantiles)


def _installation(frame: dict[str, Any]) -> Iterator[Metric]:
    quarantine, redis = frame.get("quarantine") or {}, frame.get("redis") or {}
    yield _gauge("sluicegate_quarantine_jobs", "Jobs held", [({}, _number(quarantine.get("count")))])
    yield _gauge(
        "sluicegate_quarantine_oldest_age_seconds",
        "Age of the oldest held job",
        [({}, _number(quarantine.get("oldest_age_ms"), 1000))],
    )
    yield _gauge(
        "sluicegate_alerts_firing",
        "Alerts that fire",
        [({}, _number((frame.get("alerts") or {}).get("firing")))],
    )
    yield _gauge(
        "sluicegate_redis_used_bytes", "Redis's used memory", [({}, _number(redis.get("used_bytes")))]
    )
    yield _gauge("sluicegate_redis_max_bytes", "Redis's maxmemory", [({}, _number(redis.get("max_bytes")))])
    live = sum(1 for worker in frame.get("workers") or [] if worker.get("state") == "live")
    yield _gauge("sluicegate_workers_live", "Workers that were heard of lately", [({}, float(live))])


def _gauge(name: str, text: str, rows: Iterable[tuple[dict[str, str], float | None]]) -> GaugeMetricFamily:
    rows = list(rows)
    family = GaugeMetricFamily(name, text, labels=list(rows[0][0]) if rows else [])
    for labels, value in rows:
        if value is not None:  # unknown is absent, never 0
            family.add_metric(list(labels.values()), value)
    return family


def _counter(
    name: str, text: str, rows: Iterable[tuple[dict[str, str], float | None]]
) -> CounterMetricFamily:
    rows = list(rows)
    family = CounterMetricFamily(name, text, labels=list(rows[0][0]) if rows else [])
    for labels, value in rows:
        if value is not None:
            family.add_metric(list(labels.values()), value)
    return family


def _number(value: Any, divisor: float = 1) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value / divisor

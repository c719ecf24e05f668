"""How did the gate answer? Sums by queue that always add up, and latencies at the door."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..store import bin_of_ms, percentile_ms
from .doors import Answer

_SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


@dataclass(slots=True)
class Row:
    """offered = accepted + refused + failed. jobs = accepted + given_up + still open."""

    jobs: int = 0
    offered: int = 0
    accepted: int = 0
    accepted_at_once: int = 0
    refused: int = 0
    failed: int = 0
    honoured_retry_afters: int = 0
    given_up: int = 0
    refused_by: Counter[str] = field(default_factory=Counter)
    failed_by: Counter[str] = field(default_factory=Counter)
    latency_bins: dict[str, Counter[int]] = field(
        default_factory=lambda: {"accepted": Counter(), "refused": Counter(), "failed": Counter()}
    )

    def note(self, answer: Answer, latency_ms: float, *, is_first: bool) -> None:
        self.offered += 1
        self.latency_bins[answer.kind][bin_of_ms(latency_ms)] += 1
        if answer.kind == "accepted":
            self.accepted += 1
            self.accepted_at_once += is_first
        elif answer.kind == "refused":
            self.refused += 1
            self.refused_by[answer.reason or "unknown"] += 1
        else:
            self.failed += 1
            self.failed_by[answer.reason or "unknown"] += 1

    def as_document(self) -> dict[str, Any]:
        return {
            "jobs": self.jobs,
            "offered": self.offered,
            "accepted": self.accepted,
            "accepted_at_once": self.accepted_at_once,
            "accepted_in_the_end": self.accepted,
            "refused": self.refused,
            "refused_by": dict(self.refused_by),
            "failed": self.failed,
            "failed_by": dict(self.failed_by),
            "honoured_retry_afters": self.honoured_retry_afters,
            "given_up": self.given_up,
            "still_open": self.jobs - self.accepted - self.given_up,
            "latency_ms": {kind: _percentiles(bins) for kind, bins in self.latency_bins.items()},
        }


class Scoreboard:
    """Written by the sender threads, read by the one that shows it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = Row()
        self._queues: dict[str, Row] = {}
        self._late_bins: Counter[int] = Counter()

    def note_job(self, queue: str) -> None:
        with self._lock:
            for row in self._rows(queue):
                row.jobs += 1

    def note_answer(
        self, queue: str, answer: Answer, latency_ms: float, *, late_ms: float, is_first: bool
    ) -> None:
        with self._lock:
            self._late_bins[bin_of_ms(late_ms)] += 1
            for row in self._rows(queue):
                row.note(answer, latency_ms, is_first=is_first)

    def note_return(self, queue: str) -> None:
        """A job came back no earlier than it was asked to."""
        with self._lock:
            for row in self._rows(queue):
                row.honoured_retry_afters += 1

    def note_given_up(self, queue: str) -> None:
        with self._lock:
            for row in self._rows(queue):
                row.given_up += 1

    def as_document(self) -> dict[str, Any]:
        with self._lock:
            document = self._total.as_document()
            document["late_ms"] = _percentiles(self._late_bins)
            document["queues"] = {name: row.as_document() for name, row in sorted(self._queues.items())}
        return document

    def _rows(self, queue: str) -> tuple[Row, Row]:
        return self._total, self._queues.setdefault(queue, Row())


def _percentiles(bins: Counter[int]) -> dict[str, float | None]:
    found = {name: percentile_ms(bins, share) for name, share in _SHARES}
    return {name: None if value is None else round(value, 2) for name, value in found.items()}


def format_scoreboard(document: dict[str, Any]) -> str:
    columns = (
        f"{'jobs':>8}{'offered':>9}{'accepted':>10}{'refused':>9}{'failed':>8}{'returned':>10}{'gave up':>9}"
    )
    lines = [f"{'queue':<12}{columns}   door p50 / p95 / p99 ms  (accepted; refused)"]
    for name, row in [*document["queues"].items(), ("all", document)]:
        latency = row["latency_ms"]
        lines.append(
            f"{name:<12}{row['jobs']:>8}{row['offered']:>9}{row['accepted']:>10}{row['refused']:>9}{row['failed']:>8}"
            f"{row['honoured_retry_afters']:>10}{row['given_up']:>9}   "
            f"{_show(latency['accepted'])}; {_show(latency['refused'])}"
        )
    for kind in ("refused_by", "failed_by"):
        if document[kind]:
            parts = ", ".join(f"{name} {count}" for name, count in sorted(document[kind].items()))
            lines.append(f"{kind.replace('_', ' ')}: {parts}")
    late = document["late_ms"]
    if late["p99"] is not None and late["p99"] > 250:
        lines.append(
            f"the generator fell behind its own schedule: p50 {late['p50']} ms, p99 {late['p99']} ms late"
        )
    return "\n".join(lines)


def _show(latency: dict[str, float | None]) -> str:
    values = [latency[name] for name, _ in _SHARES]
    return "-" if values[0] is None else " / ".join(f"{value:.1f}" for value in values)

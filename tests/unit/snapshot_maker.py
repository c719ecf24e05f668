"""Snapshots as the store gives them, made by a small simulation of slots and jobs."""

from __future__ import annotations

from typing import Any

from workers.metrics.history import History
from workers.states import TOTALS
from workers.store.bins import bin_of_ms

START_MS = 1_800_000_000_000

POLICY = {
    "version": 1,
    "max_count": 1000,
    "max_bytes": 1_000_000,
    "max_cost_ms": None,
    "max_age_s": None,
    "guard_age_s": 30.0,
    "age_ceiling_s": 120.0,
    "weight": 1.0,
    "strict_rank": None,
    "saturated_share": 0.5,
    "high_mark": 0.9,
    "low_mark": 0.5,
    "hold_s": 60.0,
    "reserved_slots": 0,
    "max_in_flight": None,
    "owner": None,
}


def make_queue(**changes: Any) -> dict[str, Any]:
    totals = {**dict.fromkeys(TOTALS, 0), "refused_by": {}, **changes.pop("totals", {})}
    return {
        "totals": totals,
        "depth": 0,
        "delayed": 0,
        "in_flight": 0,
        "bytes": 0,
        "cost_ms": 0,
        "oldest_eligible_at_ms": None,
        "next_due_at_ms": None,
        "inlet": 0,
        "consumers": 1,
        "slots": 2,
        "wait_bins": {},
        "service_bins": {},
        "goodput": 0,
        "service_ms_sum": 0,
        "service_n": 0,
        "model": {},
        **changes,
    }


def make_worker(now_ms: int, slots: int = 2, queues: tuple[str, ...] = ("normal",)) -> dict[str, Any]:
    return {
        "name": "w1@host",
        "host": "host",
        "pid": 7,
        "pool": "prefork",
        "slots": slots,
        "queues": list(queues),
        "beat_at_ms": now_ms - 500,
        "started_at_ms": START_MS,
        "held": [],
    }


def make_snapshot(
    at_s: float,
    queues: dict[str, dict[str, Any]],
    *,
    slots: int = 2,
    policies: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    now_ms = START_MS + round(1000 * at_s)
    return {
        "now_ms": now_ms,
        "queues": queues,
        "tenants": [],
        "workers": [make_worker(now_ms, slots, tuple(queues))] if slots else [],
        "crews": [{"queues": list(queues), "slots": slots}] if slots else [],
        "modes": {},
        "policies": policies if policies is not None else dict.fromkeys(queues, POLICY),
        "quarantine_spool": {"count": 0, "oldest_at_ms": None},
        **more,
    }


class Plant:
    """One queue, some slots, jobs of a fixed time: it says what a snapshot would."""

    def __init__(self, *, service_ms: float, slots: int, cost_ms: int = 100, name: str = "normal") -> None:
        self.name, self.service_ms, self.slots, self.cost_ms = name, service_ms, slots, cost_ms
        self.waiting: list[float] = []
        self.running: list[float] = []  # when each ends
        self.delayed = self.accepted = self.done = 0
        self.now_s = 0.0
        self.history = History()

    def accept(self, count: int, *, delayed: int = 0) -> None:
        self.waiting += [self.now_s] * (count - delayed)
        self.delayed += delayed
        self.accepted += count

    def run_until(self, at_s: float, *, arrivals_per_s: float = 0.0) -> None:
        step_s, due = 0.01, 0.0
        while self.now_s < at_s - 1e-9:
            self.now_s += step_s
            due += arrivals_per_s * step_s
            while due >= 1:
                self.accept(1)
                due -= 1
            ended = [end for end in self.running if end <= self.now_s + 1e-9]
            self.done += len(ended)
            self.running = [end for end in self.running if end > self.now_s + 1e-9]
            while self.waiting and len(self.running) < self.slots:
                self.waiting.pop(0)
                self.running.append(self.now_s + self.service_ms / 1000)

    def sample(self) -> None:
        queue = make_queue(
            depth=len(self.waiting),
            delayed=self.delayed,
            in_flight=len(self.running),
            bytes=200 * (len(self.waiting) + self.delayed),
            cost_ms=self.cost_ms * len(self.waiting),
            oldest_eligible_at_ms=START_MS + round(1000 * self.waiting[0]) if self.waiting else None,
            consumers=1 if self.slots else 0,
            slots=self.slots,
            service_ms_sum=round(self.done * self.service_ms),
            service_n=self.done,
            service_bins={bin_of_ms(self.service_ms): self.done} if self.done else {},
            totals={
                "offered": self.accepted,
                "accepted": self.accepted,
                "started": self.done + len(self.running),
                "succeeded": self.done,
            },
        )
        self.history.add(make_snapshot(self.now_s, {self.name: queue}, slots=self.slots))

    def play(self, seconds: int, *, arrivals_per_s: float = 0.0) -> None:
        for _ in range(seconds):
            self.run_until(self.now_s + 1.0, arrivals_per_s=arrivals_per_s)
            self.sample()

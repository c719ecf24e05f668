"""What becomes of both stacks, minute by minute, in an overload, after it, over a deploy and in the next one?

Both run at the same time on the same arrivals: four workers each, jobs that sleep, so that the machine is not
what is measured. The gate has its monitor, and nobody touches it.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from heapq import merge
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from ..exceptions import AdmissionRefused
from .app import build_app
from .measurements import percentile
from .server import end
from .sides import ROOT, SIDES, Bench, Side, SideName, Worker, open_side, start_worker

WORKERS, SLOTS_EACH = 4, 2
JOB_S: Final[Mapping[str, float]] = {"urgent": 0.1, "bulk": 2.0}
#: Urgent work comes at the same rate all the time; bulk brings the load to what the phase says.
URGENT_PER_S = 2.0
#: Within this, from the moment that it is offered, a job is of use. Both sides drop what is later.
DEADLINE_S = 10.0
#: Load as a multiple of the capacity, each for a quarter of the run; the deploy comes before the third.
QUARTERS: Final = (10.0, 0.5, 10.0, 0.5)
QUEUES: Final = ("urgent", "bulk")
SEED = 11

#: As shipped, but that two slots in eight stay free for urgent work, that bulk promises a wait, and that it
#: goes on being let in while saturated.
POLICIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "urgent": {
        "strict_rank": 1,
        "reserved_slots": 2,
        "max_count": 5000,
        "guard_age_s": 2,
        "age_ceiling_s": 10,
        "saturated_share": 1.0,
        "hold_s": 60,
    },
    "bulk": {
        "weight": 1,
        "max_count": 5000,
        "max_wait_s": 7,  # and a second to spare until the deadline
        "guard_age_s": 600,
        "age_ceiling_s": 1800,
        "saturated_share": 0.5,
        "hold_s": 60,
    },
}


@dataclass(frozen=True, slots=True)
class Plan:
    minutes: int

    @property
    def length_s(self) -> float:
        return self.minutes * 60.0

    @property
    def deploy_at_s(self) -> float:
        """In the second quarter, late enough that the overload before it is over."""
        return self.length_s / 2 - min(60.0, self.length_s / 8)

    def load_at(self, at_s: float) -> float:
        return QUARTERS[min(len(QUARTERS) - 1, int(at_s / self.length_s * len(QUARTERS)))]

    def arrivals(self) -> Iterator[tuple[float, str]]:
        """(s from the start, queue), at random (Poisson) and the same each time."""
        urgent_slots = URGENT_PER_S * JOB_S["urgent"]
        return merge(
            self._arrivals_of("urgent", lambda _: URGENT_PER_S),
            self._arrivals_of(
                "bulk", lambda load: (load * WORKERS * SLOTS_EACH - urgent_slots) / JOB_S["bulk"]
            ),
        )

    def _arrivals_of(self, queue: str, rate: Callable[[float], float]) -> Iterator[tuple[float, str]]:
        source = random.Random(f"{SEED} {queue}")
        at_s = 0.0
        while (at_s := at_s + source.expovariate(rate(self.load_at(at_s)))) < self.length_s:
            yield at_s, queue


@dataclass(frozen=True, slots=True)
class Done:
    """One job that ran: the minute that it was due in, and seconds from the moment that it was offered."""

    queue: str
    minute: int
    waited_s: float
    took_s: float


def measure_overload(bench: Bench, minutes: int, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Runs the plan; a minute is told, and its row kept, once its last job is past its deadline.

    Raises:
        TimeoutError, RuntimeError: a worker or the monitor did not start, or ended.
    """
    plan = Plan(minutes)
    with ExitStack() as stack:
        sides = {name: stack.enter_context(open_side(bench, name, POLICIES)) for name in SIDES}
        stack.enter_context(_run_monitor(sides["gate"]))
        fleets = {name: stack.enter_context(_run_fleet(side)) for name, side in sides.items()}
        start_at = time.time() + 2.0
        producers = [stack.enter_context(_run_producer(side, plan, start_at)) for side in sides.values()]
        deploys = {name: Deploy(fleet) for name, fleet in fleets.items()}
        seen: dict[int, Counter[str]] = {}
        waiting: dict[int, dict[SideName, int]] = {}
        rows: list[dict[str, Any]] = []
        while len(rows) < minutes:
            time.sleep(1.0)
            now_s = time.time() - start_at
            if now_s >= plan.deploy_at_s:
                for deploy in deploys.values():
                    deploy.begin()
            number = int(now_s / 60) + 1
            if 0 <= now_s < plan.length_s:
                seen.setdefault(number, Counter())[_read_mode(sides["gate"])] += 1
                waiting[number] = {name: side.count_remaining(QUEUES) for name, side in sides.items()}
                if any(deploy.is_on for deploy in deploys.values()):
                    seen[number]["deploy"] += 1
            for deploy in deploys.values():
                deploy.raise_fault()
            if any(producer.exitcode for producer in producers):
                raise RuntimeError("a producer ended early")
            if all(_is_settled(side, len(rows) + 1) for side in sides.values()):
                rows.append(_tell_minute(sides, plan, len(rows) + 1, seen, waiting))
                tell(rows[-1])
        quarters = sum_quarters(sides, minutes)
    return {"setup": describe_setup(minutes), "minutes": rows, "quarters": quarters}


def describe_setup(minutes: int) -> dict[str, Any]:
    return {
        "minutes": minutes,
        "workers": WORKERS,
        "slots_each": SLOTS_EACH,
        "job_s": dict(JOB_S),
        "urgent_per_s": URGENT_PER_S,
        "deadline_s": DEADLINE_S,
        "quarters": list(QUARTERS),
        "gate": POLICIES,
        "stock": {"queue_order_strategy": "priority", "queues": list(QUEUES), "expires_s": DEADLINE_S},
    }


def _tell_minute(
    sides: Mapping[SideName, Side],
    plan: Plan,
    number: int,
    seen: Mapping[int, Counter[str]],
    waiting: Mapping[int, Mapping[SideName, int]],
) -> dict[str, Any]:
    modes = {mode: n for mode, n in seen[number].items() if mode != "deploy"}
    offers = {name: _read_offers(side)[number - 1] for name, side in sides.items()}
    row: dict[str, Any] = {
        "minute": number,
        "load": plan.load_at((number - 1) * 60.0),
        "deploy": seen[number]["deploy"] > 0,
        "modes": [mode for mode in ("normal", "saturated", "draining", "failed") if mode in modes],
        "offered": sum(offers["gate"]["offered"].values()),
    }
    for name, side in sides.items():
        done = [job for job in _read_done(side) if job.minute == number]
        row[name] = judge(done, [offers[name]]) | {"waiting": waiting[number][name]}
    row["gate_is_worse_in"] = find_worse(row["gate"], row["stock"])
    return row


def sum_quarters(sides: Mapping[SideName, Side], minutes: int) -> list[dict[str, Any]]:
    """The same over each whole quarter: its p99 rests on many jobs and not on the worst two of a minute."""
    ends = [round(minutes * (k + 1) / len(QUARTERS)) for k in range(len(QUARTERS))]
    rows: list[dict[str, Any]] = []
    for load, first, last in zip(QUARTERS, [0, *ends], ends, strict=False):
        numbers = range(first + 1, last + 1)
        row: dict[str, Any] = {"load": load, "minutes": [first + 1, last]}
        for name, side in sides.items():
            offers = [_read_offers(side)[number - 1] for number in numbers]
            row[name] = judge([job for job in _read_done(side) if job.minute in numbers], offers)
            row["offered"] = sum(sum(line["offered"].values()) for line in offers)
        row["gate_is_worse_in"] = find_worse(row["gate"], row["stock"])
        rows.append(row)
    return rows


def judge(done: list[Done], offers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of some minutes' jobs on one side: done in time, and how long urgent ones waited (null: never ran)."""
    in_time = Counter(job.queue for job in done if job.took_s <= DEADLINE_S)
    waits = [job.waited_s * 1000 for job in done if job.queue == "urgent"]
    # What never ran has waited for ever: leaving it out would flatter who drops.
    waits += [math.inf] * (sum(row["offered"].get("urgent", 0) for row in offers) - len(waits))
    p50, p99 = (percentile(waits, share) if waits else math.inf for share in (0.50, 0.99))
    return {
        "in_time": sum(in_time.values()),
        "in_time_by_queue": dict(in_time),
        "refused": dict(sum((Counter(row["refused"]) for row in offers), Counter())),
        "urgent_p50_ms": None if math.isinf(p50) else round(p50, 1),
        "urgent_p99_ms": None if math.isinf(p99) else round(p99, 1),
        "offered_late_ms": max((row["late_ms"] for row in offers), default=None),
    }


def find_worse(gate: Mapping[str, Any], stock: Mapping[str, Any]) -> list[str]:
    """In what the gate was behind stock, by any figure at all."""
    worse = ["in_time"] if gate["in_time"] < stock["in_time"] else []
    if (gate["urgent_p99_ms"] or math.inf) > (stock["urgent_p99_ms"] or math.inf):
        worse.append("urgent_p99_ms")
    return worse


class Deploy:
    """New workers for old, one by one, beside all else."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._thread: threading.Thread | None = None
        self._fault: TimeoutError | OSError | None = None

    @property
    def is_on(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            self._fleet.replace_all()
        except (TimeoutError, OSError) as fault:  # told by the thread that waits for it
            self._fault = fault


class Fleet:
    def __init__(self, side: Side) -> None:
        self._side = side
        self._started = 0
        self.workers: list[Worker] = []

    def start(self) -> Worker:
        self._started += 1
        name = f"w{self._started}"
        worker = start_worker(self._side, queues=QUEUES, prefetch=1, concurrency=SLOTS_EACH, name=name)
        self.workers.append(worker)
        return worker

    def replace_all(self) -> None:
        for old in list(self.workers):
            old.stop(patience_s=30.0)
            self.workers.remove(old)
            self.start().await_ready()

    def stop(self) -> None:
        for worker in self.workers:
            worker.process.terminate()  # all of them at once; then each is waited for
        for worker in self.workers:
            worker.stop()


@contextmanager
def _run_fleet(side: Side) -> Iterator[Fleet]:
    fleet = Fleet(side)
    try:
        for worker in [fleet.start() for _ in range(WORKERS)]:
            worker.await_ready()
        yield fleet
    finally:
        fleet.stop()


@contextmanager
def _run_monitor(side: Side) -> Iterator[None]:
    """The product's own monitor, with a database of its own that ends with the run."""
    data = side.directory / "monitor"
    data.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICEGATE_")}
    environment |= {
        "SLUICEGATE_DATA_DIR": str(data),
        "SLUICEGATE_REDIS_URL": f"unix://{side.directory / 's'}?db=0",
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }
    manage = [sys.executable, str(ROOT / "manage.py")]
    with (data / "log").open("wb") as log:
        start: dict[str, Any] = {"env": environment, "cwd": ROOT, "stdout": log, "stderr": log}
        start["stdin"] = subprocess.DEVNULL
        subprocess.run([*manage, "migrate", "--verbosity", "0"], check=True, timeout=120, **start)
        process = subprocess.Popen([*manage, "monitor"], **start)
        try:
            yield
            if process.poll() is not None:
                raise RuntimeError(f"the monitor ended: {(data / 'log').read_text(errors='replace')[-2000:]}")
        finally:
            end(process, patience_s=10)


def _read_mode(side: Side) -> str:
    assert side.store is not None
    entry = side.store.read_modes().get("*")
    return str(entry["mode"]) if entry else "normal"


@contextmanager
def _run_producer(side: Side, plan: Plan, start_at: float) -> Iterator[BaseProcess]:
    process = multiprocessing.get_context("spawn").Process(
        target=offer_all, args=(side.broker_url, plan, start_at, side.directory / "offers"), daemon=True
    )
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join(5)


def offer_all(broker_url: str, plan: Plan, start_at: float, path: Path) -> None:
    """Offers each job when it is due, once, and writes a line about each minute."""
    os.setsid()  # a share of the machine of its own, where the system shares by session
    app = build_app(broker_url)
    work = app.tasks["bench.work"]
    offered: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    late_s, number = 0.0, 1

    def write() -> None:
        line = {"ended_at": time.time(), "offered": offered, "refused": refused}
        line["late_ms"] = round(late_s * 1000, 1)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    for at_s, queue in plan.arrivals():
        if at_s >= number * 60:
            write()
            offered.clear()
            refused.clear()
            late_s, number = 0.0, number + 1
        late_s = max(late_s, _sleep_until(start_at + at_s))
        offered[queue] += 1
        try:
            work.apply_async((queue, number, time.time(), JOB_S[queue]), queue=queue, expires=DEADLINE_S)
        except AdmissionRefused as refusal:
            refused[f"{refusal.queue} {refusal.reason}"] += 1
    write()
    app.close()


def _sleep_until(at: float) -> float:
    """By how many seconds it is past then."""
    time.sleep(max(0.0, at - time.time()))
    return time.time() - at


def _read_offers(side: Side) -> list[dict[str, Any]]:
    """What the producer wrote of each minute that it is through with."""
    path = side.directory / "offers"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _is_settled(side: Side, number: int) -> bool:
    """Whether the last job of a minute, which a late producer offers late, is past its deadline."""
    offers = _read_offers(side)
    return len(offers) >= number and time.time() > offers[number - 1]["ended_at"] + DEADLINE_S + 1


def _read_done(side: Side) -> list[Done]:
    path = side.directory / "waits"
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [Done(queue, int(minute), float(waited), float(took)) for queue, minute, waited, took in rows]

"""What exactly is measured? One function a measurement; each starts from nothing and times one thing."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

from ..exceptions import AdmissionRefused
from .app import read_waits
from .comparison import Aim, Comparison, measure_pairs
from .sides import WIDE, WORKER_START_S, Bench, Side, SideName, open_side, run_worker

DELAY_JOBS = 3_000
DRAIN_JOBS = 4_000
MEMORY_JOBS = 10_000
#: Memory does not depend on how busy the machine is: rounds agree to a byte.
MEMORY_ROUNDS = 2
REFUSALS = 3_000
WARM_UP_JOBS = 100
#: A worker that does not finish within this is broken, not slow.
DRAIN_LIMIT_S = 120.0
#: Looking costs both sides the more, the oftener it is done; a drain takes some seconds.
POLL_S = 0.1

URGENT_JOBS, URGENT_PER_S, BULK_JOBS, BULK_SECONDS = 200, 20.0, 3_000, 0.01

Measurement = Callable[[Bench, int], list[Comparison]]


def measure_delay(bench: Bench, rounds: int) -> list[Comparison]:
    """`noop.delay()` a second from one process and one thread."""

    def rate(name: SideName) -> float:
        with open_side(bench, name, {"bench": WIDE}) as side:
            noop = side.app.tasks["bench.noop"]
            return DELAY_JOBS / _timed(lambda: noop.delay(), WARM_UP_JOBS, DELAY_JOBS)

    gate, stock = measure_pairs(rounds, lambda: rate("gate"), lambda: rate("stock"))
    return [_compare("delay", "jobs/s", gate, stock, Aim(1.0, True), f"{DELAY_JOBS} noop jobs a round")]


def measure_drain(bench: Bench, rounds: int) -> list[Comparison]:
    """Noop jobs a second through one worker of two processes, acks late, until the queue is empty."""
    found = []
    for prefetch in (1, 4):

        def rate(name: SideName, prefetch: int = prefetch) -> float:
            with open_side(bench, name, {"bench": WIDE}) as side:
                _send_noops(side, DRAIN_JOBS)
                with run_worker(side, queues=["bench"], prefetch=prefetch):
                    return _drain_rate(side)

        gate, stock = measure_pairs(rounds, lambda: rate("gate"), lambda: rate("stock"))
        note = f"{DRAIN_JOBS} noop jobs a round, prefork 2, acks late"
        found.append(_compare(f"drain, prefetch {prefetch}", "jobs/s", gate, stock, Aim(1.6, True), note))
    return found


def measure_refusal(bench: Bench, rounds: int) -> list[Comparison]:
    """Microseconds in the producer of a refused and of an accepted `delay()`, both through the gate."""

    def accepted() -> float:
        with open_side(bench, "gate", {"bench": WIDE}) as side:
            noop = side.app.tasks["bench.noop"]
            return _timed(lambda: noop.delay(), WARM_UP_JOBS, REFUSALS) / REFUSALS * 1e6

    def refused() -> float:
        with open_side(bench, "gate", {"bench": {"max_count": WARM_UP_JOBS}}) as side:
            _send_noops(side, WARM_UP_JOBS)
            noop = side.app.tasks["bench.noop"]

            def offer() -> None:
                try:
                    noop.delay()
                except AdmissionRefused:
                    return
                raise RuntimeError("a full queue accepted a job")

            cost_us = _timed(offer, WARM_UP_JOBS, REFUSALS) / REFUSALS * 1e6
            _check_refusals_counted(side, WARM_UP_JOBS + REFUSALS)
            return cost_us

    first, second = measure_pairs(rounds, refused, accepted)
    note = f"{REFUSALS} of each a round; a refusal comes from Redis or from what it said a moment ago"
    return [
        Comparison(
            "refusal", "us", ("refused", "accepted"), tuple(first), tuple(second), Aim(0.1, False), note
        )
    ]


def measure_bytes(bench: Bench, rounds: int) -> list[Comparison]:
    """Redis's used_memory for each waiting noop job."""

    def per_job(name: SideName) -> float:
        with open_side(bench, name, {"bench": WIDE}) as side:
            _send_noops(side, WARM_UP_JOBS)
            before = _settled_memory(side)
            _send_noops(side, MEMORY_JOBS)
            return (_settled_memory(side) - before) / MEMORY_JOBS

    rounds = min(rounds, MEMORY_ROUNDS)
    gate, stock = measure_pairs(rounds, lambda: per_job("gate"), lambda: per_job("stock"))
    note = f"{MEMORY_JOBS} waiting noop jobs, {rounds} rounds"
    return [_compare("bytes", "bytes/job", gate, stock, Aim(1.15, False), note)]


def measure_urgent(bench: Bench, rounds: int) -> list[Comparison]:
    """How long an urgent job waits (p50, p99) while one worker of two processes works off a bulk backlog."""
    policies = {"urgent": {**WIDE, "strict_rank": 1}, "bulk": {**WIDE, "weight": 1}}
    p50s: dict[str, list[float]] = {"gate": [], "stock": []}

    def p99(name: SideName) -> float:
        with open_side(bench, name, policies) as side:
            pause, note_wait = side.app.tasks["bench.pause"], side.app.tasks["bench.note_wait"]
            for _ in range(BULK_JOBS):
                pause.apply_async((BULK_SECONDS,), queue="bulk")
            with run_worker(side, queues=["urgent", "bulk"], prefetch=1):
                _await_start(side, ["bulk"], BULK_JOBS)
                start_at = time.monotonic()
                for number in range(URGENT_JOBS):
                    time.sleep(max(0.0, start_at + number / URGENT_PER_S - time.monotonic()))
                    note_wait.apply_async((time.time(),), queue="urgent")
                waits = _await_waits(side, URGENT_JOBS)
        p50s[name].append(percentile(waits, 0.50))
        return percentile(waits, 0.99)

    gate, stock = measure_pairs(rounds, lambda: p99("gate"), lambda: p99("stock"))
    bulk = f"{BULK_JOBS} bulk jobs of {BULK_SECONDS * 1000:.0f} ms"
    note = f"{URGENT_JOBS} urgent jobs at {URGENT_PER_S:.0f}/s beside {bulk}"
    return [
        _compare("urgent wait p50", "ms", p50s["gate"], p50s["stock"], None, note),
        _compare("urgent wait p99", "ms", gate, stock, None, note),
    ]


MEASUREMENTS: Final[dict[str, Measurement]] = {
    "delay": measure_delay,
    "drain": measure_drain,
    "refusal": measure_refusal,
    "bytes": measure_bytes,
    "urgent": measure_urgent,
}


def _compare(
    name: str, unit: str, gate: list[float], stock: list[float], aim: Aim | None, note: str
) -> Comparison:
    return Comparison(name, unit, ("gate", "stock"), tuple(gate), tuple(stock), aim, note)


def _timed(action: Callable[[], object], warm_up: int, times: int) -> float:
    """Seconds for ``times`` calls, after some that are not counted (connections, scripts, caches)."""
    for _ in range(warm_up):
        action()
    gc.collect()
    started = time.perf_counter()
    for _ in range(times):
        action()
    return time.perf_counter() - started


def _send_noops(side: Side, count: int) -> None:
    noop = side.app.tasks["bench.noop"]
    for _ in range(count):
        noop.delay()


def _check_refusals_counted(side: Side, wanted: int) -> None:
    """A refusal that nobody counts would be cheap indeed; those made locally are reported within 2 s."""
    assert side.store is not None
    give_up_at = time.monotonic() + 5
    while (counted := side.store.snapshot()["queues"]["bench"]["totals"]["refused"]) != wanted:
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"the gate counted {counted} of {wanted} refusals")
        time.sleep(0.1)


def _settled_memory(side: Side) -> int:
    """used_memory once the append-only buffer of the writes before is out: the least of some readings."""
    time.sleep(0.3)
    return min(side.read_memory() for _ in range(5))


def _drain_rate(side: Side) -> float:
    """From the first reading that shows work done to the one that shows none left."""
    at, left = _await_start(side, ["bench"], DRAIN_JOBS)
    give_up_at = time.monotonic() + DRAIN_LIMIT_S
    while time.monotonic() < give_up_at:
        time.sleep(POLL_S)
        remaining = side.count_remaining(["bench"])
        if remaining == 0:
            return left / (time.monotonic() - at)
    raise TimeoutError(f"{side.name}: {remaining} of {DRAIN_JOBS} jobs were left after {DRAIN_LIMIT_S:.0f} s")


def _await_start(side: Side, queues: list[str], total: int) -> tuple[float, int]:
    give_up_at = time.monotonic() + WORKER_START_S
    while time.monotonic() < give_up_at:
        left = side.count_remaining(queues)
        if left < total:
            return time.monotonic(), left
        time.sleep(POLL_S)
    log = (side.directory / "worker.log").read_text(errors="replace")[-2000:]
    raise TimeoutError(f"{side.name}: the worker did nothing within {WORKER_START_S:.0f} s\n{log}")


def _await_waits(side: Side, count: int) -> list[float]:
    path = side.directory / "waits"
    give_up_at = time.monotonic() + DRAIN_LIMIT_S
    while len(waits := read_waits(path)) < count:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{side.name}: only {len(waits)} of {count} urgent jobs ran")
        time.sleep(POLL_S)
    return waits


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

"""What exactly is measured? One function a measurement; each starts from nothing and times one thing."""

from __future__ import annotations

import base64
import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from ..exceptions import AdmissionRefused
from ..limits.downstream import parse_downstream
from ..transport.hook import CELERYS_PREFETCH_MULTIPLIER
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

#: Urgent jobs of a millisecond or so, and ten times the bulk that the slots can do while these are offered.
URGENT_JOBS, URGENT_PER_S, URGENT_SLOTS, URGENT_ROUNDS = 150, 20.0, 4, 3
BULK_SECONDS = 1.0  # what stock has to wait for, at worst
BULK_JOBS = round(10 * URGENT_SLOTS * URGENT_JOBS / URGENT_PER_S / BULK_SECONDS)
FEATURE_JOBS, FEATURE_ROUNDS = 1_000, 3

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
                    return _drain_rate(side, DRAIN_JOBS)

        gate, stock = measure_pairs(rounds, lambda: rate("gate"), lambda: rate("stock"))
        note = f"{DRAIN_JOBS} noop jobs a round, prefork 2, acks late"
        if prefetch == CELERYS_PREFETCH_MULTIPLIER:
            note += "; Celery's default, which a worker under the gate lowers to 1"
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
    """How long an urgent job waits, alone and beside ten times the bulk that four slots can do meanwhile.

    On the gate with a slot reserved and without; on stock with the urgent queue first in its order.
    """
    loaded: dict[str, list[float]] = {}
    alone: dict[str, list[float]] = {}

    def run(label: str, name: SideName, reserved: int) -> None:
        policies = {"urgent": {**WIDE, "strict_rank": 1, "reserved_slots": reserved}, "bulk": {**WIDE}}
        with open_side(bench, name, policies) as side:
            if side.store is not None:
                # As the monitor does.
                side.store.write_crews([{"queues": ["urgent", "bulk"], "slots": URGENT_SLOTS}])
            with run_worker(side, queues=["urgent", "bulk"], prefetch=1, concurrency=URGENT_SLOTS) as worker:
                worker.await_ready()
                alone.setdefault(label, []).append(_urgent_p99(side))
                pause = side.app.tasks["bench.pause"]
                for _ in range(BULK_JOBS):
                    pause.apply_async((BULK_SECONDS,), queue="bulk")
                _await_start(side, ["bulk"], BULK_JOBS)
                loaded.setdefault(label, []).append(_urgent_p99(side))
                if not side.count_remaining(["bulk"]):
                    raise RuntimeError(f"{label}: the bulk backlog did not last")

    labels: dict[str, tuple[SideName, int]] = {
        "gate": ("gate", 1),
        "stock": ("stock", 0),
        "gate, none reserved": ("gate", 0),
    }
    for number in range(min(rounds, URGENT_ROUNDS)):
        for label in list(labels)[:: -1 if number % 2 else 1]:
            run(label, *labels[label])
    note = (
        f"{URGENT_JOBS} urgent jobs at {URGENT_PER_S:.0f}/s, {URGENT_SLOTS} slots; {BULK_JOBS} bulk jobs of "
    )
    note += f"{BULK_SECONDS * 1000:.0f} ms beside them; gate: 1 slot reserved"
    bare = "gate, none reserved"
    return [
        _compare("urgent p99", "ms", loaded["gate"], loaded["stock"], Aim(0.05, False), note),
        _compare(
            "urgent p99, bare", "ms", loaded[bare], loaded["stock"], None, "the same without a reserved slot"
        ),
        *(
            Comparison(
                f"urgent {label}",
                "ms, p99",
                ("overload", "alone"),
                tuple(loaded[label]),
                tuple(alone[label]),
                Aim(2.0, False) if label == "gate" else None,
                "the same, against the wait with no bulk at all",
            )
            for label in ("gate", "stock")
        ),
    ]


def _urgent_p99(side: Side) -> float:
    path = side.directory / "waits"
    path.unlink(missing_ok=True)
    note_wait = side.app.tasks["bench.note_wait"]
    for _ in range(5):  # connections, scripts, a pool that has never run
        note_wait.apply_async((time.time(),), queue="urgent")
        time.sleep(1 / URGENT_PER_S)
    start_at = time.monotonic()
    for number in range(URGENT_JOBS):
        time.sleep(max(0.0, start_at + number / URGENT_PER_S - time.monotonic()))
        note_wait.apply_async((time.time(),), queue="urgent")
    return percentile(_await_waits(side, URGENT_JOBS + 5)[5:], 0.99)


@dataclass(frozen=True, slots=True)
class Feature:
    """What is switched on: in the policy, in each message, in the environment of producer and worker."""

    name: str
    policy: Mapping[str, Any] = field(default_factory=dict)
    message: Callable[[int], dict[str, Any]] = lambda _: {}
    environment: Mapping[str, str] = field(default_factory=dict)


#: None of them refuses or sheds a job here: what is measured is what it costs to be asked.
FEATURES: Final = (
    Feature("nothing"),
    Feature("a rate limit", {"rate_limits": [{"per": "tenant", "limit": 1_000_000, "window_s": 1}]}),
    Feature("ordering keys", message=lambda n: {"headers": {"sluicegate": {"ordering_key": f"k{n % 100}"}}}),
    Feature("a downstream", {"downstream": "bank"}),
    Feature("controlled delay", {"codel_target_ms": 3_600_000, "codel_interval_ms": 3_600_000}),
    Feature("100 tenants", message=lambda n: {"headers": {"tenant": f"t{n % 100}"}}),
    Feature("deadlines", message=lambda _: {"expires": 3600}),
    Feature(
        "encryption",
        environment={"SLUICEGATE_PAYLOAD_KEYS": base64.urlsafe_b64encode(bytes(range(32))).decode()},
    ),
)


def measure_features(bench: Bench, rounds: int) -> list[Comparison]:
    """What each feature costs `delay()` and the drain, against the same gate with all of them off.

    In processor time, which a busy machine does not stretch as it does the clock's.
    """
    sent: dict[str, list[float]] = {feature.name: [] for feature in FEATURES}
    drained: dict[str, list[float]] = {feature.name: [] for feature in FEATURES}
    for number in range(min(rounds, FEATURE_ROUNDS)):
        for feature in FEATURES[:: -1 if number % 2 else 1]:
            with (
                _environment(feature.environment),
                open_side(bench, "gate", {"bench": {**WIDE, **feature.policy}}) as side,
            ):
                assert side.store is not None
                settings = parse_downstream({"initial": 100, "target_ms": 60_000})
                side.store.publish_downstream("bank", settings.as_fields(), version=1)
                noop = side.app.tasks["bench.noop"]
                jobs = iter(range(WARM_UP_JOBS + FEATURE_JOBS))
                for _ in range(WARM_UP_JOBS):
                    noop.apply_async(**feature.message(next(jobs)))
                gc.collect()
                before_s = time.process_time() + side.read_server_cpu_s()
                for number_of_job in jobs:
                    noop.apply_async(**feature.message(number_of_job))
                spent_s = time.process_time() + side.read_server_cpu_s() - before_s
                sent[feature.name].append(spent_s / FEATURE_JOBS * 1e6)
                total, before_s = WARM_UP_JOBS + FEATURE_JOBS, side.read_server_cpu_s()
                with run_worker(side, queues=["bench"], prefetch=1):
                    _drain_rate(side, total)
                    drained[feature.name].append((side.read_server_cpu_s() - before_s) / total * 1e6)
    return [
        Comparison(
            f"{what}: {feature.name}",
            "CPU us/job",
            ("on", "off"),
            tuple(found[feature.name]),
            tuple(found["nothing"]),
            None,
            note,
        )
        for what, found, note in (
            ("delay", sent, f"{FEATURE_JOBS} noop jobs a round; producer and Redis together"),
            ("drain", drained, f"{WARM_UP_JOBS + FEATURE_JOBS} noop jobs a round; Redis"),
        )
        for feature in FEATURES[1:]
    ]


@contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


MEASUREMENTS: Final[dict[str, Measurement]] = {
    "delay": measure_delay,
    "drain": measure_drain,
    "refusal": measure_refusal,
    "bytes": measure_bytes,
    "urgent": measure_urgent,
    "features": measure_features,
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


def _drain_rate(side: Side, total: int) -> float:
    """From the first reading that shows work done to the one that shows none left."""
    at, left = _await_start(side, ["bench"], total)
    give_up_at = time.monotonic() + DRAIN_LIMIT_S
    while time.monotonic() < give_up_at:
        time.sleep(POLL_S)
        remaining = side.count_remaining(["bench"])
        if remaining == 0:
            return left / (time.monotonic() - at)
    raise TimeoutError(f"{side.name}: {remaining} of {total} jobs were left after {DRAIN_LIMIT_S:.0f} s")


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

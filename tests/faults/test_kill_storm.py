"""Is anything lost, or run twice unseen, when workers and the server are killed over and over under load?"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from kombu.exceptions import OperationalError

from tests.engine import audit
from tests.engine.bench import POLICIES, Bench
from workers.exceptions import AdmissionRefused, StoreUnavailable


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench(
        policies={queue: {**fields, "lease_s": 2, "max_deliveries": 50} for queue, fields in POLICIES.items()}
    )
    yield bench
    bench.close()


class Feeder(threading.Thread):
    """Offers small jobs until told to stop; knows which were accepted, and which nobody can know of."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(daemon=True)
        self.bench, self.ending = bench, threading.Event()
        self.accepted: dict[str, str] = {}
        self.unsure: set[str] = set()

    def run(self) -> None:
        for number in range(1_000_000):
            if self.ending.wait(0.01):
                return
            name = f"s{number}"
            try:
                result = self.bench.task("note").apply_async((name, 0.02), retry=False)
                self.accepted[name] = result.id
            except AdmissionRefused:
                pass
            except (StoreUnavailable, OperationalError, OSError):
                self.unsure.add(name)


def storm(bench: Bench, *, worker_kills: int, server_kills: int) -> None:
    dice = random.Random(7)
    bench.start_workers("prefork", "threads")
    feeder = Feeder(bench)
    feeder.start()
    deeds = ["worker"] * worker_kills + ["server"] * server_kills
    dice.shuffle(deeds)
    for deed in deeds:
        pause_until = time.monotonic() + dice.uniform(0.3, 1.5)
        while time.monotonic() < pause_until:
            time.sleep(0.05)
        if deed == "server":
            bench.server.kill()
            bench.server.start()
        else:
            victim = dice.choice([worker for worker in bench.workers if worker.process.poll() is None])
            victim.send(signal.SIGKILL)
            victim.process.wait(10)
            bench.start_worker(dice.choice(["prefork", "threads", "solo"]))
    feeder.ending.set()
    feeder.join(30)
    bench.await_rest(within_s=120)
    ends = Counter(row[1] for row in bench.lines() if row[0] == "end")
    starts = Counter(row[1] for row in bench.lines() if row[0] == "start")
    missing = [name for name in feeder.accepted if not ends[name]]
    assert not missing, f"{len(missing)} of {len(feeder.accepted)} accepted jobs never ended: {missing[:5]}"
    assert set(starts) <= set(feeder.accepted) | feeder.unsure
    totals = bench.totals()
    assert totals["succeeded"] == totals["accepted"] >= len(feeder.accepted)
    again = sum(starts.values()) - len(starts)
    assert again <= totals["redelivered"], f"{again} second starts, {totals['redelivered']} redeliveries"
    audit.check(bench.store)


@pytest.mark.slow
def test_nothing_is_lost_over_a_few_kills(bench: Bench) -> None:
    storm(bench, worker_kills=3, server_kills=1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_nothing_is_lost_over_sixty_kills(bench: Bench) -> None:
    storm(bench, worker_kills=50, server_kills=10)

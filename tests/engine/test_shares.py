"""Do real workers give each class and each tenant its share, and keep an overload useful?"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.waiting import wait_until
from workers.admission.offers import build_offer

from .bench import POLICIES, Bench


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.start_worker("prefork", slots=2)
    yield bench
    bench.close()


@pytest.fixture(autouse=True)
def at_rest(bench: Bench) -> Iterator[None]:
    yield
    for queue in POLICIES:
        bench.store.purge(queue, by="test")
    bench.await_rest()
    bench.set_policies(POLICIES)


def offer_many(bench: Bench, number: int, queue: str, name: str, *, seconds: float, **facts: Any) -> None:
    """Offers so many at once, as a batch of messages that Celery would send."""
    facts.setdefault("tenant", "default")
    for first in range(0, number, 500):
        bench.store.admit(
            [
                build_offer(bench.app, "w.note", [name, seconds], queue=queue, cost_ms=100, **facts)
                for _ in range(min(500, number - first))
            ]
        )


def test_over_any_thirty_completions_each_class_has_its_share_of_the_weights(bench: Bench) -> None:
    weights = {"normal": 3, "urgent": 2, "bulk": 1}
    bench.set_policies({queue: {"weight": weight, "lease_s": 4} for queue, weight in weights.items()})
    for queue, weight in weights.items():
        offer_many(bench, 20 * weight, queue, f"share-{queue}", seconds=0.02)
    bench.await_rest(within_s=60)
    ends = [row[1][6:] for row in bench.lines() if row[0] == "end" and row[1].startswith("share-")]
    assert Counter(ends) == {queue: 20 * weight for queue, weight in weights.items()}
    worst = 0.0
    # Each has as many jobs as its weight says, so every class has work until the last few.
    for first in range(len(ends) - 30 - 6):
        window = Counter(ends[first : first + 30])
        for queue, weight in weights.items():
            worst = max(worst, abs(window[queue] / 30 - weight / 6))
    print(f"worst difference from the weights over any 30: {worst:.3f}")
    assert worst <= 0.10


def test_a_low_class_waits_no_longer_than_its_ceiling_and_ten_starts(bench: Bench) -> None:
    bench.set_policies({"bulk": {"weight": 1, "age_ceiling_s": 1, "lease_s": 4}})
    offer_many(bench, 400, "urgent", "endless", seconds=0.02)
    low = bench.task("note").apply_async(("low",), queue="bulk")
    done = bench.await_status(low.id, "succeeded")
    assert bench.totals()["depth"] > 0, "the high class had ended"
    accepted, started = done.times["accepted_at_ms"], done.times["started_at_ms"]
    assert accepted is not None and started is not None
    between = [row for row in bench.lines("endless") if row[0] == "start"]
    after_ceiling = [row for row in between if accepted + 1_000 < int(row[3]) < started]
    print(f"low started after {started - accepted} ms, {len(after_ceiling)} starts past its ceiling")
    assert len(after_ceiling) <= 12


def test_a_tenant_with_ten_thousand_waiting_delays_anothers_first_job_by_five_services_at_most(
    bench: Bench,
) -> None:
    service_s = 0.2
    offer_many(bench, 10_000, "normal", "crowd", seconds=service_s, tenant="crowd")
    wait_until(lambda: bench.count("end", "crowd") > 4, within_s=30)
    waits = []
    for index in range(3):
        job = bench.task("note").apply_async(
            (f"lone-{index}", service_s), headers={"tenant": f"lone-{index}"}
        )
        done = bench.await_status(job.id, "succeeded")
        accepted, started = done.times["accepted_at_ms"], done.times["started_at_ms"]
        assert accepted is not None and started is not None
        waits.append(started - accepted)
    print(f"first jobs of others waited {waits} ms")
    assert max(waits) <= 5 * service_s * 1000


CODEL = {"weight": 3, "lease_s": 4, "codel_target_ms": 400, "codel_interval_ms": 1_000}


@pytest.mark.slow
def test_controlled_delay_keeps_an_overload_useful_on_real_workers(bench: Bench) -> None:
    """Half as much again as two slots of 100 ms can do, each job with two seconds to live."""
    good: dict[str, float] = {}
    for name, policy, mode in (
        ("fifo", {"weight": 3, "lease_s": 4}, "normal"),
        ("codel", CODEL, "normal"),
        ("lifo", {"weight": 3, "lease_s": 4, "order": "lifo", "age_ceiling_s": 2}, "saturated"),
    ):
        bench.set_policies({"normal": policy})
        bench.store.set_mode("*", mode, by="test", reason="overload")
        offered = overload(bench, name, seconds=8, per_s=30)
        bench.store.set_mode("*", "normal", by="test", reason="over")
        bench.store.purge("normal", by="test")
        bench.await_rest()
        late = [op for op in map(bench.operation, offered[90:]) if op.status == "succeeded"]
        took = [op.times["committed_at_ms"] - op.times["accepted_at_ms"] for op in late]  # type: ignore[operator]
        good[name] = sum(ms <= 2_000 for ms in took) / 5
    print({name: f"{per_s:.1f} in time a second" for name, per_s in good.items()})
    assert good["codel"] > 2 * good["fifo"], good
    assert good["lifo"] > 2 * good["fifo"], good


def overload(bench: Bench, name: str, *, seconds: int, per_s: int) -> list[str]:
    """Ids of what was offered, evenly, in so many seconds."""
    offered = []
    begin = time.monotonic()
    pause = threading.Event()
    for number in range(seconds * per_s):
        pause.wait(max(0.0, begin + number / per_s - time.monotonic()))
        result = bench.task("note").apply_async((name, 0.1), expires=2)
        offered.append(result.id)
    return offered

"""Do real workers in several processes find what a real service bears, and learn from how their jobs end?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.sink import Sink
from tests.support.waiting import wait_until
from workers.limits.downstream import parse_downstream

from .bench import POLICIES, Bench


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.start_workers("prefork", "prefork", slots=6)
    yield bench
    bench.close()


def state(bench: Bench) -> dict[str, Any]:
    return next(d for d in bench.store.snapshot()["downstreams"] if d["name"] == "sink")


def make(bench: Bench, **settings: Any) -> None:
    bench.store.remove_downstream("sink")
    bench.store.publish_downstream("sink", parse_downstream(settings).as_fields(), version=1)


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


@pytest.mark.slow
def test_the_limit_finds_a_service_of_four_connections_then_of_two_then_of_eight(bench: Bench) -> None:
    make(bench, target_ms=390, initial=6, max=12, window_ms=400)
    sink = Sink(connections=4, service_s=0.3)
    found: dict[int, list[float]] = {}
    try:
        for connections, jobs in ((4, 130), (2, 70), (8, 240)):
            sink.resize(connections)
            for _ in range(jobs):
                bench.task("call_sink").delay(sink.url)
            until = time.monotonic() + 8
            seen = []
            while time.monotonic() < until:
                seen.append((until - time.monotonic(), state(bench)["limit"]))
                time.sleep(0.1)
            found[connections] = [limit for left, limit in seen if left < 2.5]
            bench.store.purge("normal", by="test")
        bench.await_rest()
    finally:
        sink.close()
    print({size: (min(seen), median(seen), max(seen)) for size, seen in found.items()})
    for connections, seen in found.items():
        # Up to a target of 1.3 times the bare latency, calls may queue in the service.
        assert connections * 0.75 <= median(seen) <= connections * 1.3 + 2, found


@pytest.mark.parametrize("reports", [True, False], ids=["reported", "raised"])
def test_a_service_that_turns_calls_away_is_left_with_what_it_takes(bench: Bench, reports: bool) -> None:
    make(bench, target_ms=1_000, initial=12, max=12, window_ms=250)
    sink = Sink(connections=3, service_s=0.2, turns_away=True)
    try:

        def keep_busy() -> None:
            """A call that is turned away takes no time: no number of them is enough everywhere."""
            for _ in range(100 - bench.totals()["depth"]):
                bench.task("call_sink").delay(sink.url, reports=reports)

        def limit_is_down() -> bool:
            keep_busy()
            return bool(state(bench)["limit"] <= 4)

        def has_served() -> bool:
            keep_busy()
            return sink.served - before[0] > 12

        wait_until(limit_is_down, within_s=20, what="the limit to come down")
        before = sink.served, sink.refused
        wait_until(has_served, within_s=30, what="the service to serve")
        # A limit one too high, which is tried again and again, turns one away for each that ends. One that
        # stayed at 12 turned ten away: a slot is free again at once.
        refused, served = sink.refused - before[1], sink.served - before[0]
        print(f"turned away {refused}, served {served}")
        assert refused < 2 * served
        assert state(bench)["dropped"] >= 2
        bench.store.purge("normal", by="test")
        bench.await_rest()
    finally:
        sink.close()
    bench.store.forget_spooled([job.id for job in bench.store.read_quarantine_spool(1_000)])


def test_a_job_that_outlives_its_time_limit_is_a_drop(bench: Bench) -> None:
    make(bench, initial=4)
    result = bench.task("hang").delay("hang", seconds=30)
    bench.await_status(result.id, "failed")
    bench.await_rest()
    assert state(bench)["dropped"] == 1


def test_a_queue_behind_a_downstream_holds_no_more_than_it_over_processes(bench: Bench) -> None:
    bench.set_policies({**POLICIES, "bulk": {"weight": 1, "downstream": "sink"}})
    make(bench, initial=3, max=3)
    for _ in range(30):
        bench.task("note").apply_async(("behind", 0.1), queue="bulk")
    most = 0
    while bench.totals()["depth"]:
        most = max(most, state(bench)["in_flight"])
    bench.await_rest()
    assert most == 3
    assert bench.count("end", "behind") == 30

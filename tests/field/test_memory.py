"""Does memory follow what is kept, and not what has ever been: of web, of monitor, and of Redis?"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery

from tests.support.stack import Stack
from tests.support.waiting import wait_until
from workers import install

from .house import House, memory_of
from .viewers import Viewers, open_stream

MEGABYTE = 1 << 20
#: Jobs of one call, and how many may wait: the worker is kept busy and no bound is met.
AT_ONCE, MOST_WAITING = 200, 1_000


def work_off(house: House, queue: str, count: int) -> None:
    """``count`` jobs of several tenants' kinds, one in a hundred of which fails, submitted and done."""
    done = settled(house, queue) + count
    for start in range(0, count, AT_ONCE):
        jobs: list[Any] = [
            {"task": "drill.fail", "args": [f"number {n}"], "queue": queue}
            if n % 100 == 0
            else {"task": "drill.echo", "args": [n], "queue": queue, "tags": [f"batch-{start}"]}
            for n in range(start, min(start + AT_ONCE, count))
        ]
        wait_until(lambda: waiting(house, queue) < MOST_WAITING, within_s=120, what="the worker to keep up")
        house.submit_until_taken(jobs)
    wait_until(lambda: settled(house, queue) >= done, within_s=300, what=f"{count} jobs to be done")


def waiting(house: House, queue: str) -> int:
    return int(house.store.snapshot()["queues"][queue]["depth"])


def settled(house: House, queue: str) -> int:
    totals = house.store.snapshot()["queues"][queue]["totals"]
    return int(totals["succeeded"] + totals["failed"])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("viewers", [0, 5])
def test_fifty_thousand_jobs_leave_web_and_monitor_as_twenty_thousand_did(
    gate_up: Callable[..., Stack], viewers: int
) -> None:
    stack = gate_up(name=f"memory-{viewers}", SLUICEGATE_WORKERS="2")
    house = House(stack)
    seen: dict[int, dict[str, int]] = {}
    try:
        done, began = 0, time.monotonic()
        with Viewers(stack, viewers) as watching:
            for mark in (0, 5_000, 20_000, 50_000):
                work_off(house, "normal", mark - done)
                done = mark
                time.sleep(3)  # what the last jobs were worth to the recorder and the historian
                seen[mark] = {name: memory_of(stack.child_pid(name)) for name in ("web", "monitor")}
                print(
                    f"{viewers} viewers, {mark} jobs, {time.monotonic() - began:.0f} s, "
                    f"{watching.frames} frames:",
                    *(f"{name} {held / MEGABYTE:.1f} MB" for name, held in seen[mark].items()),
                    flush=True,
                )
            if viewers:
                assert watching.frames > 10 * viewers
        for name in ("web", "monitor"):
            grown = seen[50_000][name] - seen[20_000][name]
            assert grown < 10 * MEGABYTE, f"{name} grew by {grown / MEGABYTE:.1f} MB: {seen}"
    finally:
        house.close()
        stack.stop()


# Redis, with nobody left to tidy up but the workers.

#: Seconds that ended jobs are kept here (an hour in an installation), half of all jobs, and tabs opened.
KEPT_S, HALF, TABS = 60, 2_500, 50


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_with_the_dashboard_dead_half_way_redis_comes_back_to_what_it_held(
    gate_up: Callable[..., Stack],
) -> None:
    """Web and monitor are killed and stay dead; readers had come and gone; the workers go on and tidy up."""
    stack = gate_up(name="dashless", SLUICEGATE_WORKERS="2", SLUICEGATE_RETENTION_S=str(KEPT_S))
    house = House(stack)
    client = house.store.client
    try:
        work_off(house, "normal", 20)
        wait_until(
            lambda: not ended_records(house), within_s=2 * KEPT_S, what="the first jobs to be forgotten"
        )
        names, used = lasting_keys(house), client.info("memory")["used_memory"]
        work_off(house, "normal", HALF)
        for _ in range(TABS):
            with open_stream(stack):
                pass
        leave_dead(stack, "web", "monitor")
        with producer(stack) as app:
            for start in range(0, HALF, AT_ONCE):
                for number in range(start, min(start + AT_ONCE, HALF)):
                    app.send_task("drill.echo", (number,), queue="normal")
                wait_until(lambda: waiting(house, "normal") < MOST_WAITING, within_s=120)
        wait_until(lambda: settled(house, "normal") == 20 + 2 * HALF, within_s=300, what="the drain")
        most = client.dbsize(), client.info("memory")["used_memory"]
        drained = time.monotonic()

        def is_back() -> bool:
            return not ended_records(house) and client.info("memory")["used_memory"] < used + MEGABYTE

        wait_until(is_back, within_s=120, what="Redis to hold no more than before")
        print(
            f"{2 * HALF} jobs: {used / MEGABYTE:.2f} MB and {len(names)} lasting keys before, "
            f"{most[1] / MEGABYTE:.2f} MB and {most[0]} keys when drained, "
            f"{client.info('memory')['used_memory'] / MEGABYTE:.2f} MB and {client.dbsize()} keys "
            f"{time.monotonic() - drained:.0f} s later"
        )
        assert lasting_keys(house) - names <= {b"sluicegate:{main}:frame"}
        assert house.store.recount()["normal"]["depth"] == 0
    finally:
        house.close()
        assert stack.process is not None
        stack.process.send_signal(signal.SIGCONT)
        stack.stop()


def ended_records(house: House) -> int:
    return int(house.store.client.hlen(house.store.root + "ops"))


def lasting_keys(house: House) -> set[bytes]:
    """Keys that do not end by themselves."""
    client = house.store.client
    return {key for key in client.keys("*") if client.pttl(key) == -1}


def leave_dead(stack: Stack, *children: str) -> None:
    """Ends processes of an installation for good: who would start them again is stopped."""
    assert stack.process is not None
    stack.process.send_signal(signal.SIGSTOP)
    for child in children:
        os.kill(stack.child_pid(child), signal.SIGKILL)


@contextmanager
def producer(stack: Stack) -> Iterator[Celery]:
    """A program that publishes by Celery alone."""
    broker = f"sluicegate+socket://{stack.redis_url.removeprefix('unix://').split('?')[0]}"
    app = install(Celery("producer", broker=broker, backend="disabled://", set_as_current=False))
    yield app
    app.close()

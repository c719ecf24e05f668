"""Is what a forecast says of a queue what then becomes of it, and a number or a word that can be meant?"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.room import Room
from tests.support.waiting import wait_until

from .house import House

if TYPE_CHECKING:
    from playwright.sync_api import Page

SERVICE_S = 0.2


def jobs(queue: str, count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"task": "drill.sleep", "args": [SERVICE_S], "queue": queue, **fields}] * count


class Seen:
    """Every frame of a while, for one queue: when it was taken, and what it said."""

    def __init__(self, house: House, queue: str) -> None:
        self.house, self.queue = house, queue
        self.rows: list[tuple[float, dict[str, Any]]] = []
        self.last: dict[str, Any] = {}

    def look(self) -> dict[str, Any]:
        frame = self.house.frame()
        assert_can_be_meant(frame)
        row: dict[str, Any] = next(row for row in frame["queues"] if row["name"] == self.queue)
        if not self.rows or frame["at_ms"] / 1000 != self.rows[-1][0]:
            self.rows.append((frame["at_ms"] / 1000, row))
        self.last = row
        return row

    def await_state(self, *states: str, within_s: float = 30) -> dict[str, Any]:
        wait_until(
            lambda: self.look()["drain"]["state"] in states,
            within_s=within_s,
            what=f"{self.queue} to be {' or '.join(states)}; it was {self.last.get('drain')}",
        )
        return dict(self.last["drain"])


def assert_can_be_meant(value: Any, where: str = "frame") -> None:
    """No number of a frame is negative, infinite or none; a drain time may be unknown, with its reason."""
    if isinstance(value, dict):
        if (
            "state" in value
            and "seconds" in value
            and value["seconds"] is None
            and value["state"] == "unknown"
        ):
            assert value["reason"], where
        for name, part in value.items():
            assert_can_be_meant(part, f"{where}.{name}")
    elif isinstance(value, list):
        for part in value:
            assert_can_be_meant(part, where)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        assert math.isfinite(value), (where, value)
        # Of what may be below zero by its meaning there is only what changes.
        assert value >= 0 or where.rpartition(".")[2] in ("trend", "net", "slope"), (where, value)


@contextmanager
def arrivals(house: House, per_s: float, *queues: str) -> Iterator[None]:
    """Jobs that come at a steady rate for as long as the block lasts."""
    stop = threading.Event()

    def offer() -> None:
        with house.stack.client() as client:
            began, sent = time.monotonic(), 0
            while not stop.wait(0.25):
                due = int((time.monotonic() - began) * per_s) - sent
                if due > 0:
                    sent += due
                    body = [job for queue in queues for job in jobs(queue, due)]
                    client.post("/api/v1/jobs/bulk", json=body).raise_for_status()

    thread = threading.Thread(target=offer)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def test_what_is_empty_delayed_or_without_a_worker_says_so_and_the_page_does_too(
    house: House, page: Page
) -> None:
    queue = house.make_queue(lease_s=1)
    seen = Seen(house, queue)
    empty = seen.await_state("empty")
    assert (empty["seconds"], empty["inputs"]["jobs"]) == (0, 0)
    house.submit_until_taken(jobs(queue, 20, countdown_s=3600))
    wait_until(lambda: seen.look()["delayed"] == 20, within_s=15, what="the delayed ones to be seen")
    assert (seen.last["drain"]["state"], seen.last["drain"]["seconds"]) == ("empty", 0)
    house.submit_until_taken(jobs(queue, 20))
    stalled = seen.await_state("stalled")
    assert (stalled["seconds"], stalled["reason"]) == (None, "no consumer")
    room = Room(page, house.stack)
    room.log_in()
    room.row(queue).wait_for()
    wait_until(
        lambda: "stalled: no consumer" in room.row(queue).inner_text(), within_s=30, what="the page to say so"
    )
    house.start_worker(queue, slots=2)
    draining = seen.await_state("draining", "empty", within_s=60)
    if draining["state"] == "draining":
        # The twenty that are due in an hour are no part of it.
        assert draining["inputs"]["jobs"] <= 20
        assert draining["inputs"]["work_ms"] <= 20 * 2_000
    seen.await_state("empty", within_s=60)
    assert seen.last["delayed"] == 20
    text = page.evaluate("document.body.innerText")
    assert not re.search(r"\b(Infinity|NaN|undefined|null)\b", text)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("delayed", [0, 500], ids=["all-due", "as-many-delayed"])
def test_five_hundred_jobs_of_two_workers_are_forecast_from_ten_seconds_on(
    house: House, delayed: int
) -> None:
    queue = house.make_queue(lease_s=1)
    for _ in range(2):
        house.start_worker(queue, slots=1)
    seen = Seen(house, queue)
    if delayed:
        house.submit_until_taken(jobs(queue, delayed, countdown_s=3600))
    house.submit_until_taken(jobs(queue, 500))
    began_s = house.store.snapshot()["now_ms"] / 1000
    while (
        not seen.rows or seen.rows[-1][1]["depth"] + seen.rows[-1][1]["in_flight"] > 0 or len(seen.rows) < 10
    ):
        seen.look()
        assert len(seen.rows) < 300
        time.sleep(0.3)
    ended_s = seen.rows[-1][0]
    told = [
        (at_s - began_s, row["drain"]["seconds"], ended_s - at_s)
        for at_s, row in seen.rows
        if at_s - began_s >= 10 and row["drain"]["state"] == "draining" and ended_s - at_s >= 3
    ]
    wrong = [entry for entry in told if abs(entry[1] - entry[2]) > 0.3 * entry[2]]
    print(
        f"{ended_s - began_s:.0f} s, {len(told)} forecasts, {len(wrong)} off by more than 30 %: {told[::5]}"
    )
    assert len(told) > 20
    assert not wrong


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_twice_what_can_be_done_is_growing_until_it_is_full(house: House) -> None:
    queue = house.make_queue(lease_s=1, max_count=2_000)
    house.start_worker(queue, slots=2)
    seen = Seen(house, queue)
    with arrivals(house, 2 * 2 / SERVICE_S, queue):
        growing = seen.await_state("growing", within_s=60)
        assert growing["seconds"] is None
        # Ten a second more come than go, of two thousand; at first the rates are of a time before that.
        near: Callable[[], bool] = lambda: 50 < (seen.look()["drain"]["full_in_s"] or 0) < 400  # noqa: E731
        wait_until(near, within_s=30, what="a time to full")
        until = time.monotonic() + 20
        while time.monotonic() < until:
            assert seen.look()["drain"]["state"] == "growing", seen.last["drain"]
            time.sleep(0.5)
    drained = seen.await_state("draining", within_s=30)
    assert drained["seconds"] > 0


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_starved_class_has_a_forecast_of_its_own(house: House, page: Page) -> None:
    """What goes strictly first keeps both slots busy; what is behind it gets none, and is told so by name."""
    first, behind = house.make_queue(lease_s=1, strict_rank=0), house.make_queue(lease_s=1)
    house.start_worker(f"{first},{behind}", slots=2)
    seen, before = Seen(house, behind), Seen(house, first)
    with arrivals(house, 1.5 * 2 / SERVICE_S, first):
        before.await_state("growing", within_s=60)
        house.submit_until_taken(jobs(behind, 30))
        # It is growing for as long as its thirty count as arriving.
        starved = seen.await_state("stalled", within_s=60)
        assert (starved["seconds"], starved["reason"]) == (None, f"starved by {first}")
        room = Room(page, house.stack)
        room.log_in()
        wait_until(
            lambda: f"stalled: starved by {first}" in room.row(behind).inner_text(),
            within_s=30,
            what="the page to say so",
        )
    seen.await_state("draining", "empty", within_s=120)

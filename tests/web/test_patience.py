"""Does a submit that prefers to wait get in as soon as there is room, in order, and hold nothing?"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from queues_ui.access.patience import (
    MOST_WAITING,
    ROOM_HEADER,
    WAITED_HEADER,
    Patience,
    RoomBell,
    wait_preferred,
)
from tests.engine.test_admission import an_offer
from workers.store import Store


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        ("wait=10", 10),
        ("respond-async, Wait = 5", 5),
        ('wait="7"; x=y, wait=1', 7),
        ("wait", None),
        ("wait=-1", None),
        ("wait=soon, wait=3", 3),
        ("", None),
    ],
)
def test_the_preference_is_read_as_rfc_7240_has_it(prefer: str, seconds: int | None) -> None:
    assert wait_preferred(prefer) == seconds


class Door:
    """The gate's verdict as an HTTP answer, as the views give it."""

    def __init__(self, store: Store, *, most: int = MOST_WAITING) -> None:
        self.store = store
        self.inside = self.most_inside = self.asked = 0
        self.waited: list[int] = []
        self.bell = RoomBell(lambda: store, most=most)
        self.patience = Patience(self.application, self.bell)

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        op_id = (await receive())["body"].decode()
        verdict = (await asyncio.to_thread(self.store.admit, [an_offer(id=op_id)]))[0]
        headers = []
        for name, value in scope["headers"]:
            if name == WAITED_HEADER.lower().encode():
                self.waited.append(int(value))
        if verdict.block_s:
            headers.append((ROOM_HEADER.encode(), f"{verdict.queue};{verdict.block_s}".encode()))
        self.inside -= 1
        await send(
            {"type": "http.response.start", "status": 202 if verdict.accepted else 429, "headers": headers}
        )
        await send({"type": "http.response.body", "body": b""})

    async def submit(
        self, op_id: str, prefer: str | None, *, gone: asyncio.Event | None = None, forged: int | None = None
    ) -> Any:
        sent: list[dict[str, Any]] = []
        given = [False]

        async def receive() -> dict[str, Any]:
            if given[0]:
                await (gone or asyncio.Event()).wait()
                return {"type": "http.disconnect"}
            given[0] = True
            return {"type": "http.request", "body": op_id.encode()}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [] if prefer is None else [(b"prefer", prefer.encode())]
        if forged is not None:
            headers.append((WAITED_HEADER.lower().encode(), str(forged).encode()))
        scope = {"type": "http", "method": "POST", "path": "/api/v1/jobs", "headers": headers}
        began = time.monotonic()
        await self.patience(scope, receive, send)
        if not sent:
            return None
        return sent[0]["status"], dict(sent[0]["headers"]), time.monotonic() - began


@pytest.fixture
def door(store: Store) -> Iterator[Callable[..., Door]]:
    store.publish_policy("normal", {"max_count": 1, "on_full": "block", "block_s": 20}, version=1)
    store.admit([an_offer(id="first")])
    yield lambda **about: Door(store, **about)
    # The one listener ends by itself once nobody waits.
    for thread in threading.enumerate():
        if thread.name == "room-bell":
            thread.join(5)
    assert not [thread for thread in threading.enumerate() if thread.name == "room-bell"]


def run(steps: Any) -> None:
    async_to_sync(steps)()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def test_it_is_woken_by_room_and_says_that_it_waited(door: Callable[..., Door], store: Store) -> None:
    async def steps() -> None:
        house = door()
        waiting = asyncio.create_task(house.submit("a", "wait=15", forged=99))
        await until(lambda: store.client.info("clients")["blocked_clients"])
        await asyncio.sleep(0.1)
        made = time.monotonic()
        await asyncio.to_thread(store.claim, "w", ["normal"], 1)
        status, headers, _ = await waiting
        assert time.monotonic() - made < 0.5
        assert (status, headers[b"preference-applied"]) == (202, b"wait=15")
        assert ROOM_HEADER.encode() not in headers
        assert house.waited and 50 < house.waited[-1] < 10_000
        assert 99 not in house.waited  # who asks cannot say how long it has waited

    run(steps)


def test_it_waits_no_longer_than_it_said_nor_than_the_queue_lets_it(
    door: Callable[..., Door], store: Store
) -> None:
    async def steps() -> None:
        house = door()
        status, headers, took = await house.submit("a", "wait=1")
        assert status == 429 and 0.9 <= took < 2
        assert headers[b"preference-applied"] == b"wait=1"
        store.publish_policy("normal", {"max_count": 1, "on_full": "block", "block_s": 0.3}, version=2)
        status, _, took = await house.submit("a", "wait=15")
        assert status == 429 and 0.25 <= took < 1.2

    run(steps)


def test_a_queue_that_does_not_block_answers_at_once_and_applies_nothing(
    door: Callable[..., Door], store: Store
) -> None:
    async def steps() -> None:
        house = door()
        status, headers, took = await house.submit("a", None)
        assert (status, headers) == (429, {})
        store.publish_policy("normal", {"max_count": 1}, version=2)
        status, headers, took = await house.submit("a", "wait=9")
        assert (status, headers) == (429, {}) and took < 1
        store.publish_policy("normal", {"max_count": 9}, version=3)
        status, headers, _ = await house.submit("b", "wait=9")
        assert (status, headers[b"preference-applied"]) == (202, b"wait=9")

    run(steps)


def test_who_came_first_is_let_in_first_and_nobody_holds_a_place_inside(
    door: Callable[..., Door], store: Store
) -> None:
    async def steps() -> None:
        house = door()
        order: list[int] = []

        async def one(number: int) -> None:
            status, _, _ = await house.submit(f"n{number}", "wait=20")
            assert status == 202
            order.append(number)

        tasks = []
        for number in range(12):
            tasks.append(asyncio.create_task(one(number)))
            await until(lambda: house.bell.waiting == len(tasks))
        await asyncio.sleep(0.05)
        assert house.inside == 0
        assert sum(thread.name == "room-bell" for thread in threading.enumerate()) == 1
        while len(order) < 12:
            before = len(order)
            await asyncio.to_thread(store.claim, "w", ["normal"], 1)
            await until(lambda: len(order) > before)  # noqa: B023
        await asyncio.gather(*tasks)
        # The first may be looking by itself just as it is told of room; then the next one has it.
        assert all(abs(place - number) <= 1 for place, number in enumerate(order)), order

    run(steps)


def test_how_many_may_wait_is_bounded(door: Callable[..., Door], store: Store) -> None:
    async def steps() -> None:
        house = door(most=3)
        waiting = [asyncio.create_task(house.submit(f"w{n}", "wait=2")) for n in range(3)]
        await until(lambda: house.bell.is_full)
        status, headers, took = await house.submit("d", "wait=2")
        assert (status, headers) == (429, {}) and took < 1
        for task in waiting:
            assert (await task)[0] == 429
        assert house.bell.waiting == 0

    run(steps)


def test_who_has_gone_is_not_offered_again(door: Callable[..., Door], store: Store) -> None:
    async def steps() -> None:
        house, gone = door(), asyncio.Event()
        task = asyncio.create_task(house.submit("a", "wait=20", gone=gone))
        await until(lambda: house.bell.waiting)
        gone.set()
        assert await task is None
        await asyncio.to_thread(store.claim, "w", ["normal"], 1)
        await asyncio.sleep(0.1)
        assert store.read_operation("a") is None

    run(steps)


def test_a_changed_policy_lets_in_who_waits_without_a_word_of_room(
    door: Callable[..., Door], store: Store
) -> None:
    async def steps() -> None:
        house = door()
        waiting = [asyncio.create_task(house.submit(f"w{n}", "wait=15")) for n in range(5)]
        await until(lambda: house.bell.waiting == 5)
        store.publish_policy("normal", {"max_count": 50, "on_full": "block", "block_s": 20}, version=2)
        answers = await asyncio.gather(*waiting)
        assert [answer[0] for answer in answers] == [202] * 5
        assert all(answer[2] < 5 for answer in answers)

    run(steps)

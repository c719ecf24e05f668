"""Does a page find its way back to the stream, however it lost it, and not all pages at once?"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.stack import Stack
from tests.support.waiting import wait_until

from .room import Room

if TYPE_CHECKING:
    from playwright.sync_api import Page, WebSocketRoute

#: A server that is there, takes a socket and says nothing more: what is left of one after a laptop slept.
DEAD = "dead"


@pytest.fixture
def room(gate_up: Callable[..., Stack], page: Page) -> Room:
    return Room(page, gate_up(name="pages", SLUICEGATE_WORKERS="2"))


def test_a_socket_that_has_died_unseen_is_left_for_a_new_one(room: Room) -> None:
    sockets: list[str] = []

    def route(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        sockets.append("")
        number = len(sockets) - 1

        def on_message(message: str | bytes) -> None:
            if sockets[number] != DEAD:
                socket.send(message)

        server.on_message(on_message)

    room.page.route_web_socket("**/ws/live", route)
    room.log_in()
    body = room.page.locator("body")
    opened = len(sockets)
    sockets[-1] = DEAD
    expect(body).to_have_attribute("data-live", "stale")
    expect(body).to_have_attribute("data-live", "live")

    def shows_the_newest() -> bool:
        """A slow machine's page may be live again by asking, before it has a new socket."""
        room.page.wait_for_timeout(100)  # the sockets of the page are served meanwhile
        shown = room.page.evaluate("() => import('/static/js/live.js').then(({ live }) => live.frame.seq)")
        return len(sockets) > opened and abs(room.stack.get("/api/v1/queues")["seq"] - shown) <= 3

    wait_until(shows_the_newest, within_s=40, what="the newest frame by a new socket")
    assert len(sockets) == opened + 1


def test_a_server_that_is_frozen_with_the_socket_open_turns_the_page_stale_and_its_return_live(
    room: Room,
) -> None:
    room.log_in()
    body, web = room.page.locator("body"), room.stack.child_pid("web")
    os.kill(web, signal.SIGSTOP)
    try:
        expect(body).to_have_attribute("data-live", "stale")
    finally:
        os.kill(web, signal.SIGCONT)
    expect(body).to_have_attribute("data-live", "live")


def test_two_hundred_pages_do_not_come_back_in_one_second(room: Room) -> None:
    room.open("/login/")
    waits = room.page.evaluate(
        "() => import('/static/js/live.js').then(({ returnAfterMs }) =>"
        " Array.from({ length: 200 }, () => returnAfterMs(0, Math.random())))"
    )
    seconds = Counter(int(wait / 1000) for wait in waits)
    assert min(waits) >= 250
    assert max(waits) < 5_000
    assert max(seconds.values()) <= 80

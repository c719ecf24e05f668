"""Does a page that was cut off say so in time, and come back by itself to what is so now?"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.room import Room
from tests.support.waiting import wait_until

from .house import House

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Two frames' time, and what a busy machine's page takes to draw.
STALE_WITHIN_MS = 4_000

#: Notes each change between live and stale, with the time since the newest frame came.
WATCH = """() => import('/static/js/live.js').then(({ live }) => {
  window.changes = [];
  let last = document.body.dataset.live;
  new MutationObserver(() => {
    const now = document.body.dataset.live;
    const since = performance.timeOrigin + performance.now() - live.receivedAt;
    if (now !== last) window.changes.push([now, since]);
    last = now;
  }).observe(document.body, { attributes: true, attributeFilter: ["data-live"] });
})"""
FRAME = "() => import('/static/js/live.js').then(({ live }) => live.frame)"


@pytest.fixture
def room(house: House, page: Page) -> Room:
    room = Room(page, house.stack)
    room.log_in()
    page.evaluate(WATCH)
    return room


def assert_told_in_time(room: Room) -> None:
    """Of what was noted since the page was opened: each time that it fell silent it said so."""
    changes = room.page.evaluate("window.changes")
    silences = [after_ms for word, after_ms in changes if word in ("stale", "lost")]
    print([(word, round(after_ms)) for word, after_ms in changes])
    assert silences and silences[0] < STALE_WITHIN_MS, changes


def assert_shows_what_the_api_says(room: Room, house: House) -> None:
    """The whole of a frame, the same as the API's of its number."""

    def pair() -> tuple[dict[str, Any], dict[str, Any]] | None:
        said, shown = house.http.get("/api/v1/queues").json(), room.page.evaluate(FRAME)
        return (shown, said) if shown["seq"] == said["seq"] else None

    shown, said = wait_until(pair, within_s=30, what="the page and the API to be at one frame")
    aside = ("type", "sampled_ago_ms")
    assert {name: shown[name] for name in shown if name not in aside} == {
        name: said[name] for name in said if name not in aside
    }


@contextmanager
def stopped(house: House, child: str) -> Iterator[None]:
    pid = house.stack.child_pid(child)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_browser_that_was_offline_says_so_and_comes_back_to_what_is_so(house: House, room: Room) -> None:
    body, queue = room.page.locator("body"), house.make_queue()
    expect(room.row(queue)).to_be_visible()
    room.page.context.set_offline(True)
    try:
        expect(body).to_have_attribute("data-live", "lost")
        house.submit_many([{"task": "drill.echo", "args": [1], "queue": queue}] * 7)
        expect(room.page.locator("[data-liveword]")).to_have_text("stale")
        expect(room.page.locator("[data-liveage]")).to_contain_text("ago")
    finally:
        room.page.context.set_offline(False)
    expect(body).to_have_attribute("data-live", "live")
    expect(room.waiting(queue)).to_have_text("7")
    assert_told_in_time(room)
    assert_shows_what_the_api_says(room, house)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("away", ["offline", "redis", "frozen redis", "frozen web", "web", "monitor"])
def test_a_page_that_was_away_for_a_while(house: House, room: Room, away: str) -> None:
    body, queue = room.page.locator("body"), house.make_queue()
    expect(room.row(queue)).to_be_visible()
    if away == "offline":
        room.page.context.set_offline(True)
        time.sleep(60)
        room.page.context.set_offline(False)
    elif away.startswith("frozen "):
        with stopped(house, away.removeprefix("frozen ")):
            time.sleep(40)
            expect(body).not_to_have_attribute("data-live", "live")
    else:
        os.kill(house.stack.child_pid(away), signal.SIGKILL)
        time.sleep(5)
    expect(body).to_have_attribute("data-live", "live")
    wait_until(
        lambda: house.post("drill.echo", 1, queue=queue).status_code == 202,
        within_s=60,
        what="a job to be taken",
    )
    expect(room.waiting(queue)).to_have_text("1")
    if away not in ("redis", "web", "monitor"):  # those may be back before the page has missed two frames
        assert_told_in_time(room)
    assert_shows_what_the_api_says(room, house)

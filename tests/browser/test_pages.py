"""Is the page honest when it is cut off, deaf to markup, and whole on a phone?"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import ViewportSize, expect

from tests.support.stack import Stack
from tests.support.waiting import wait_until

from .room import Room

if TYPE_CHECKING:
    from playwright.sync_api import Page, WebSocketRoute

MARKUP = '<img src=x onerror="document.title=\'run\'"><script>document.title="run"</script>'
PAGES = (
    "/",
    "/queues/",
    "/jobs/",
    "/quarantine/",
    "/workers/",
    "/tenants/",
    "/downstreams/",
    "/privacy/",
    "/alerts/",
    "/policies/",
    "/contracts/",
    "/audit/",
)
PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture
def room(gate_up: Callable[..., Stack], page: Page) -> Room:
    return Room(page, gate_up(name="pages", SLUICEGATE_WORKERS="2"))


def test_a_silent_sampler_turns_the_page_stale_and_its_return_live(room: Room) -> None:
    room.log_in()
    body, monitor = room.page.locator("body"), room.stack.child_pid("monitor")
    os.kill(monitor, signal.SIGSTOP)
    try:
        expect(body).to_have_attribute("data-live", "stale")
        expect(room.page.locator("[data-verdict-headline]")).to_contain_text("monitor is silent")
        expect(room.row("normal").locator(".state-word")).to_contain_text("last")
        expect(room.row("normal").locator(".forecast-head")).to_have_text("unknown")
        expect(room.page.locator('[data-set-mode="draining"]')).to_have_attribute("aria-disabled", "true")
    finally:
        os.kill(monitor, signal.SIGCONT)
    expect(body).to_have_attribute("data-live", "live")
    expect(room.row("normal").locator(".state-word")).not_to_contain_text("last")


def test_a_page_that_is_opened_while_redis_hangs_shows_what_was_kept_and_says_of_when(room: Room) -> None:
    room.stack.submit("drill.echo", "so that the room is not one where nothing was ever offered")
    room.log_in()
    body, redis = room.page.locator("body"), room.stack.child_pid("redis")
    headline, lines = room.page.locator("[data-verdict-headline]"), room.page.locator("[data-verdict-lines]")
    headings = room.page.locator("main h2:visible")
    wait_until(
        lambda: room.stack.get("/api/v1/history?queue=normal&metric=depth&since=-60")["points"],
        within_s=60,
        what="a sample in the history",
    )
    os.kill(redis, signal.SIGSTOP)
    try:
        room.open("/")
        expect(headline).to_contain_text("Redis does not answer (timeout)")
        expect(body).to_have_attribute("data-live", "connecting")
        expect(lines).to_contain_text(re.compile(r"Every number below is of [\d:]+, the last sample"))
        expect(room.row("normal").locator(".state-word")).to_contain_text("last")
        expect(room.page.locator('[data-set-mode="failed"]')).to_have_attribute("aria-pressed", "true")
        expect(room.page.locator('[data-act="acknowledge"]')).to_be_hidden()
        # What the history does not keep has no heading over nothing.
        not_kept = re.compile("^(Tenants|Workers|Refused|What happened)")
        expect(headings.filter(has_text=not_kept)).to_have_count(0)
        expect(headings.filter(has_text="Gives way first")).to_have_count(1)
        expect(room.page.locator("[data-side] .shedlist li")).to_have_count(4)
        room.open("/contracts/")
        expect(room.page.locator("main nav a")).to_have_count(4)
        expect(room.page.locator("main .shedlist li")).to_have_count(4)
        expect(room.page.locator("main .detail")).to_contain_text("policy version")
        room.open("/")
        expect(lines).to_contain_text("Every number below is of")
    finally:
        os.kill(redis, signal.SIGCONT)
    expect(body).to_have_attribute("data-live", "live")
    expect(headline).not_to_contain_text("does not answer")
    expect(headings.filter(has_text="Workers")).to_have_count(1)
    expect(room.row("normal").locator(".state-word")).not_to_contain_text("last")


def test_a_page_that_never_got_a_frame_and_has_no_history_shows_no_empty_headings(room: Room) -> None:
    room.log_in()
    room.page.route_web_socket("**/ws/live", lambda socket: None)
    room.page.route("**/api/v1/history*", lambda route: route.fulfill(json={"at_ms": [], "queues": {}}))
    room.open("/")
    lines = room.page.locator("[data-verdict-lines]")
    expect(lines).to_contain_text("No sample is kept from before, so there is nothing to show below.")
    assert room.page.locator("main h2:visible, main button:visible").count() == 0


def test_a_killed_sampler_is_shown_and_the_next_one_takes_over(room: Room) -> None:
    room.log_in()
    live = room.page.locator("body")
    os.kill(room.stack.child_pid("monitor"), signal.SIGKILL)
    expect(live).to_have_attribute("data-live", "stale")
    expect(live).to_have_attribute("data-live", "live")


def test_a_page_says_who_does_not_answer_and_that_its_rows_are_old_or_have_not_come(room: Room) -> None:
    room.stack.manage("downstream", "set", "post", "--reason", "a test")
    room.log_in()
    room.open("/downstreams/")
    pages = [room.page, room.page.context.new_page()]  # open before, and opened in the outage
    bars = [page.locator(".stalebar") for page in pages]
    rows = [page.locator('[data-downstream="post"]') for page in pages]
    expect(rows[0]).to_contain_text("0 of 4")
    redis = room.stack.child_pid("redis")
    os.kill(redis, signal.SIGSTOP)
    try:
        pages[1].goto(pages[0].url, wait_until="domcontentloaded")
        stale = r"Stale\. Redis has not answered since [\d:]+ \(timeout\)\."
        opened = r"Not live\. Redis does not answer \(timeout\), seen by this page since [\d:]+\."
        for bar, words in zip(bars, (stale, opened), strict=True):
            expect(bar).to_contain_text(re.compile(words))
            expect(bar).to_be_visible()
        expect(rows[0]).to_contain_text("last")
        expect(rows[1]).to_contain_text("unknown")
        expect(rows[1]).not_to_contain_text("0 of 4")
        for page in pages:
            change = page.get_by_role("button", name="Change post")
            expect(change).to_have_attribute("aria-disabled", "true")
            expect(change).to_have_attribute("title", "not possible while Redis does not answer")
        pages[1].goto(f"{room.stack.base_url}/queues/urgent/", wait_until="domcontentloaded")
        queue = pages[1].locator(".detail")
        expect(queue).to_contain_text(re.compile(r"no frame has come.*Seen by this page since [\d:]+\."))
        expect(queue.get_by_role("heading", name="Does it add up?")).to_be_hidden()
        pages[1].goto(pages[0].url, wait_until="domcontentloaded")
    finally:
        os.kill(redis, signal.SIGCONT)
    for bar, row in zip(bars, rows, strict=True):
        expect(bar).to_be_hidden()
        expect(row).to_contain_text("open")
        expect(row).to_contain_text("0 of 4")
    expect(pages[0].get_by_role("button", name="Change post")).not_to_have_attribute("aria-disabled", "true")


def test_a_downstream_is_changed_where_its_limit_is_shown(room: Room) -> None:
    room.stack.manage("downstream", "set", "bank", "--reason", "a test")
    room.log_in()
    room.open("/downstreams/")
    row = room.page.locator('[data-downstream="bank"]')
    expect(row).to_contain_text("0 of 4")
    room.page.get_by_role("button", name="Change bank").click()
    dialog = room.page.locator("dialog.ask")
    for place, value in ((2, "3"), (3, "2")):  # max, initial
        dialog.locator("input[type=number]").nth(place).fill(value)
    dialog.locator("[data-reason]").fill("fewer")
    dialog.get_by_role("button", name="Change 1 downstream").click()
    expect(dialog).to_have_count(0)
    expect(row).to_contain_text("0 of 2")
    expect(room.page.locator("main")).to_contain_text("version 2 by operator: fewer")


def test_a_value_that_the_policy_refuses_is_told_beside_its_field_before_it_is_sent(room: Room) -> None:
    room.log_in()
    room.open("/policies/bulk/")
    field, acts = room.page.locator('[data-field="max_count"]'), room.page.locator(".preview .acts")
    field.locator("input").fill("-3")
    expect(field.locator(".fault")).to_contain_text("must be at least 1")
    expect(room.page.locator(".preview tbody td").last).to_contain_text("not possible: must be at least 1")
    expect(acts.locator("button.main")).to_have_attribute("aria-disabled", "true")
    field.locator("input").fill("3000")
    expect(field.locator(".fault")).to_be_hidden()
    expect(room.page.locator(".preview tbody td").last).to_contain_text("of the new bound")
    expect(acts.locator("button.main")).not_to_have_attribute("aria-disabled", "true")
    assert room.stack.get("/api/v1/policies/bulk")["version"] == 1


def test_markup_in_an_error_is_shown_as_it_is(room: Room) -> None:
    failed = room.stack.submit("drill.fail", MARKUP, queue="normal")
    wait_until(lambda: room.stack.job(failed)["status"] == "failed", within_s=60, what="the job to fail")
    room.log_in()
    for path in (f"/quarantine/{failed}/", f"/jobs/{failed}/"):
        room.open(path)
        expect(room.page.locator("main")).to_contain_text("<img src=x onerror=")
        assert room.page.locator("main img").count() == 0
        assert room.page.title() != "run"
    room.open("/")
    expect(room.page.locator(".cause").first).to_be_visible()
    assert room.page.locator("main img").count() == 0


def test_no_page_scrolls_sideways_on_a_phone_nor_the_room_on_any_screen(room: Room) -> None:
    room.page.set_viewport_size(PHONE)
    room.log_in()
    for path in PAGES:
        room.open(path)
        expect(room.page.locator("body")).to_have_attribute("data-live", "live")
        width, window = room.widest()
        assert width <= window, f"{path} is {width} wide in a window of {window}"
    for width in (768, 1024, 1366):  # a tablet, both ways, and a small laptop
        room.page.set_viewport_size({"width": width, "height": 800})
        room.open("/")
        expect(room.row("normal")).to_be_visible()
        assert room.widest() == (width, width)


def test_the_rules_of_alerts_stand_below_each_other_on_a_phone(room: Room) -> None:
    room.page.set_viewport_size(PHONE)
    room.log_in()
    room.open("/alerts/")
    rule = room.page.locator("tr[data-rule]").first
    expect(rule).to_be_visible()
    wide = "nodes => nodes.filter(node => node.scrollWidth > node.clientWidth).length"
    assert room.page.locator(".scrollx").evaluate_all(wide) == 0
    # Each cell says which column it is of, since the head of the table is not there to say it.
    named = "cells => cells.map(cell => getComputedStyle(cell, '::before').content)"
    assert rule.locator("td[data-column]").evaluate_all(named) == [
        '"fires when"',
        '"clears at or under"',
        '"severity"',
        '"goes to"',
        '"runbook"',
    ]
    rule.get_by_role("button", name="Edit").click()
    expect(room.page.locator("dialog.ask")).to_contain_text("Change the rule")


@pytest.mark.parametrize(
    ("path", "row"), [("/audit/", "log in"), ("/privacy/", "personal"), ("/policies/", "v1")]
)
def test_no_table_that_is_read_by_rows_scrolls_sideways_on_a_phone(room: Room, path: str, row: str) -> None:
    room.page.set_viewport_size(PHONE)
    room.log_in()
    room.open(path)
    expect(room.page.locator("table.stacked tbody tr").filter(has_text=row).first).to_be_visible()
    wide = "nodes => nodes.filter(node => node.scrollWidth > node.clientWidth).length"
    assert room.page.locator(".scrollx").evaluate_all(wide) == 0


def test_no_page_breaks_the_content_policy(room: Room) -> None:
    complaints: list[str] = []
    room.page.on(
        "console", lambda message: complaints.append(message.text) if message.type == "error" else None
    )
    room.log_in()
    for path in PAGES:
        room.open(path)
        expect(room.page.locator("body")).to_have_attribute("data-live", "live")
    room.open("/")
    if room.page.locator("body[data-empty]").count() == 0:
        expect(room.page.locator(".figure-box[data-draw-ms]")).to_be_visible()
    assert not [text for text in complaints if "Content Security Policy" in text]


def test_keys_reach_the_mode_switch_and_escape_leaves_it(room: Room) -> None:
    room.log_in()
    dialog = room.page.locator("dialog.ask")

    def ask() -> bool:
        """On a busy machine the page may be stale for a moment, or forget the first key before the second."""
        room.page.keyboard.press("m")
        room.page.keyboard.press("s")
        return dialog.count() > 0

    wait_until(ask, within_s=60, what="the two keys to ask for the mode")
    expect(dialog).to_contain_text("Saturated?")
    room.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert room.stack.get("/api/v1/mode")["mode"] == "normal"


def test_the_mode_dialog_asks_for_what_it_will_switch(room: Room) -> None:
    room.log_in()
    room.open("/queues/bulk/")
    room.page.locator(".detail").get_by_role("button", name="draining").click()
    dialog = room.page.locator("dialog.ask")
    heading = dialog.locator("h2")
    expect(heading).to_have_text("Switch the queue bulk from Normal to Draining?")
    dialog.get_by_role("button", name="all queues").click()
    expect(heading).not_to_contain_text("bulk")
    dialog.get_by_role("button", name="urgent", exact=True).click()
    expect(heading).to_have_text("Switch the queue urgent from Normal to Draining?")


def test_the_limit_of_a_downstream_is_drawn_back_from_before_the_page_was_opened(room: Room) -> None:
    room.stack.manage("downstream", "set", "rail", "--reason", "a test")
    room.log_in()
    now_ms = int(room.stack.get("/api/v1/queues")["at_ms"])
    at_ms = [now_ms - back * 1000 for back in range(600, 0, -10)]
    metrics = dict.fromkeys(("in_flight", "mean_ms", "latency_p50", "latency_p99", "answered", "dropped"))
    kept: dict[str, Any] = {
        "downstream": "rail",
        "step_s": 10,
        "at_ms": at_ms,
        "metrics": {name: [None] * len(at_ms) for name in metrics} | {"limit": [4] * len(at_ms)},
    }
    room.page.route("**/api/v1/history?downstream=rail*", lambda route: route.fulfill(json=kept))
    room.open("/downstreams/")
    line = room.page.locator('[data-downstream="rail"] .spark-line')
    # A third of the quarter of an hour is before what is kept: 92 units wide, it begins at 31.
    expect(line).to_have_attribute("d", re.compile(r"^M3[01]\.\d [\d.]+L"))


def test_a_page_with_more_tenants_than_a_frame_holds_says_that_it_shows_a_sample(room: Room) -> None:
    def route(socket: WebSocketRoute) -> None:
        def hand_on(message: str | bytes) -> None:
            frame = json.loads(message)
            row = {"queue": "normal", "tenant": "ann", "rates": {"offered": 2.0}, "depth": 3, "share": 0.1}
            rest = dict.fromkeys(("delayed", "in_flight", "bytes", "cost_ms", "oldest_age_ms"), 0)
            frame |= {"tenants": [{**row, **rest}], "tenants_left_out": 1_948}
            for queue in frame["queues"]:
                queue["tenants_known"] = 1_949 if queue["name"] == "normal" else 0
            socket.send(json.dumps(frame))

        socket.connect_to_server().on_message(hand_on)

    room.page.route_web_socket("**/ws/live", route)
    room.log_in()
    room.open("/tenants/")
    expect(room.page.locator("[data-sample]")).to_contain_text("A sample: 1 of 1,949 rows")
    expect(room.page.locator("tfoot tr").first).to_contain_text("1,948 more rows")
    room.open("/queues/normal/")
    expect(room.page.locator(".detail")).to_contain_text("A sample: 1 of 1,949\u00a0tenants.")


def test_the_pages_that_do_not_fit_are_in_a_menu_that_works_from_the_keyboard(room: Room) -> None:
    room.log_in()
    page = room.page
    bar, button = page.locator("[data-pagelinks]"), page.locator("[data-pagemenu] button")
    fits = "node => node.scrollWidth <= node.clientWidth"
    page.set_viewport_size({"width": 1440, "height": 900})
    room.open("/audit/")
    expect(bar.locator("a")).to_have_count(len(PAGES))
    expect(button).to_be_hidden()
    assert bar.evaluate(fits)
    page.set_viewport_size({"width": 1024, "height": 800})
    expect(button).to_be_visible()
    assert bar.evaluate(fits)
    links = page.locator("[data-pagelist] a")
    assert page.locator(".pages a").count() == len(PAGES)  # none is lost, none twice
    expect(button).to_have_attribute("data-holds", "current")
    button.focus()
    page.keyboard.press("Enter")
    expect(links.first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(links.last).to_be_focused()
    page.keyboard.press("Escape")
    expect(links.first).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    page.locator("h1").first.click()
    expect(links.first).to_be_hidden()
    button.click()
    links.filter(has_text="Contracts").click()
    expect(page.locator("body")).to_have_attribute("data-page", "contracts")

    page.set_viewport_size(PHONE)
    more, tab = page.locator("[data-more]"), page.locator('[data-open="more"]')
    expect(more).to_be_hidden()
    tab.press("Enter")
    expect(more.locator("a").first).to_be_focused()
    expect(more.locator('[aria-current="page"]')).to_have_text("Contracts")
    page.keyboard.press("Escape")
    expect(more).to_be_hidden()
    expect(tab).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

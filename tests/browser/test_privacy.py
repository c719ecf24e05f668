"""What does a page show of what a job carries, to whom, and after which question?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

from tests.support.stack import Stack
from tests.support.waiting import wait_until

from .room import Room

if TYPE_CHECKING:
    from playwright.sync_api import Page

MARK = "MARKED-alice@example"


@pytest.fixture
def room(page: Page, gate_up: Callable[..., Stack]) -> Room:
    return Room(page, gate_up())


def held_job(stack: Stack) -> str:
    op_id = stack.submit("drill.fail", MARK, payload_class="personal")
    path = f"/api/v1/quarantine/{op_id}"

    def is_held() -> bool:
        with stack.client() as client:
            return client.get(path).status_code == httpx.codes.OK

    wait_until(is_held, within_s=60, what="the failed job to be held")
    return op_id


def test_a_held_job_is_redacted_until_it_is_revealed_for_a_reason(room: Room) -> None:
    op_id = held_job(room.stack)
    room.log_in()
    room.open(f"/quarantine/{op_id}/")
    detail = room.page.locator(".pane.detail")
    expect(detail.locator("pre.args")).to_have_text(json.dumps({"args": ["redacted"], "kwargs": {}}))
    assert MARK not in room.page.content()
    detail.locator("[data-act=reveal]").click()
    dialog = room.page.locator("dialog.ask")
    dialog.get_by_role("button", name="Reveal 1 job").click()
    expect(dialog).to_contain_text("A reason is needed")
    dialog.locator("[data-reason]").fill("ticket 12")
    dialog.get_by_role("button", name="Reveal 1 job").click()
    expect(detail.locator("[data-revealed]")).to_contain_text(MARK)
    entry = room.stack.get("/api/v1/journal?verb=reveal")["entries"][0]
    assert (entry["actor"], entry["target"], entry["reason"]) == ("operator", op_id, "ticket 12")


def test_a_viewer_is_told_who_may(room: Room) -> None:
    op_id = held_job(room.stack)
    password = "another pass phrase"
    room.stack.manage("user", "create", "looker", "--role", "viewer", "--password", password)
    room.log_in("looker", password)
    for page in (f"/quarantine/{op_id}/", f"/jobs/{op_id}/"):
        room.open(page)
        expect(room.page.locator("main")).to_contain_text("redacted: personal; an operator may reveal it")
        assert room.page.locator("[data-act=reveal]").count() == 0
        assert MARK not in room.page.content()

"""Can an operator see an overload come, hold it off, work it off and bring back what failed?"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.support.stack import Stack
from tests.support.waiting import wait_until

from .room import Room

if TYPE_CHECKING:
    from playwright.sync_api import Page

JOBS = 150
SECONDS_EACH = 0.4
#: Over this age for this long the alert fires; the shipped rule would make the test wait for half a minute.
QUICK_RULE = {
    "name": "normal-age",
    "threshold": 3,
    "clear_threshold": 1,
    "for_s": 1,
    "reason": "a quick test",
}


@pytest.fixture
def room(gate_up: Callable[..., Stack], page: Page) -> Room:
    return Room(page, gate_up(name="overload", SLUICEGATE_WORKERS="2"))


def alerts_of(stack: Stack, **having: str) -> list[dict[str, Any]]:
    """The alerts that fire now and have these fields."""
    with stack.client() as client:
        rows = client.get("/api/v1/alerts", params={"state": "firing"}).json()["alerts"]
    return [row for row in rows if having.items() <= row.items()]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_overload_is_seen_held_off_worked_off_and_its_failures_replayed(room: Room) -> None:
    page, stack = room.page, room.stack
    with stack.client() as client:
        client.put("/api/v1/alerts/rules", json=QUICK_RULE).raise_for_status()
    room.log_in()
    expect(room.row("normal")).to_be_visible()

    # A flood raises depth and age, and the age alert fires.
    room.offer_many(JOBS, "drill.sleep", SECONDS_EACH, queue="normal")
    expect(room.waiting("normal")).to_have_text(re.compile(r"^[5-9]\d$|^1\d\d$"))
    expect(room.row("normal").locator(".age")).to_have_text(re.compile(r"^([3-9](\.\d)?|\d\d)\s?s$|min"))
    strip = page.locator("[data-strip]")
    expect(strip).to_have_attribute("data-firing", re.compile("triangle|diamond"))
    expect(strip).to_contain_text("normal")

    # Who is on call takes it, and asks for quiet.
    acknowledge = strip.locator('[data-act="acknowledge"]')

    def take() -> list[dict[str, Any]]:
        taken = alerts_of(stack, acknowledged_by="operator")
        if not taken and acknowledge.is_enabled():  # not while a busy machine's page has no live frame
            acknowledge.click()
        return taken

    wait_until(take, what="the alert to be somebody's")
    strip.locator('[data-act="snooze"]').click()
    page.locator("dialog.ask").get_by_role("button", name=re.compile("^Snooze 1")).click()
    expect(page.locator("dialog.ask")).to_have_count(0)
    assert [alert for alert in alerts_of(stack) if (alert["snoozed_until_at_ms"] or 0) > alert["fired_at_ms"]]

    # Saturated: bulk is refused, urgent still accepted, and the page shows both.
    room.switch_to("saturated", reason="a flood of normal jobs")
    status, problem = room.offer("drill.echo", "late", queue="bulk")
    assert (status, problem["reason"]) == (503, "mode")
    assert problem["retry_after_s"] >= 1
    status, answer = room.offer("drill.echo", "now", queue="urgent")
    assert status == 202
    urgent = answer["operation_id"]
    expect(room.row("bulk")).to_have_attribute("data-state", "closed")
    expect(room.figure("bulk", "refused")).not_to_have_text("0.0")
    wait_until(
        lambda: stack.job(urgent)["status"] == "succeeded", within_s=60, what="the urgent job to be done"
    )

    # Draining: nothing new enters, and the backlog goes.
    room.switch_to("draining", reason="let it run dry")
    status, problem = room.offer("drill.echo", "no", queue="normal")
    assert (status, problem["reason"]) == (503, "mode")
    expect(room.waiting("normal")).to_have_text("0", timeout=240_000)

    # Back to normal.
    room.switch_to("normal", reason="the backlog is gone")
    expect(strip).not_to_have_attribute("data-firing", re.compile("."))
    assert room.offer("drill.echo", "again", queue="bulk")[0] == 202

    # A job fails for good; its cause is mended; it is replayed and succeeds.
    blocking = stack.data_dir / "ledger.txt"
    blocking.write_text("not made by a drill\n")
    failing = stack.submit("drill.append", "ledger.txt", "once", queue="normal")
    page.locator('nav.pages [data-nav="quarantine"]').click(no_wait_after=True)
    job = page.locator(f'.jobitem[data-job="{failing}"]')
    expect(job).to_be_visible()
    job.click()
    expect(page.locator(".detail")).to_contain_text("PathRefused")
    with page.expect_download() as taking:
        page.get_by_role("button", name="Export CSV").click()
    assert failing in taking.value.path().read_text()
    blocking.unlink()
    page.locator('[data-act="replay-this"]').click()
    dialog = page.locator("dialog.ask")
    expect(dialog).to_contain_text("Replay 1\u00a0job")
    expect(dialog).to_contain_text("no replay of this cause, nor of drill.append, is known to have ended")
    dialog.locator("[data-reason]").fill("the file is gone")
    dialog.get_by_role("button", name=re.compile(r"^Replay 1")).click()
    expect(page.locator(".batch")).to_have_attribute("data-state", "done")
    expect(page.locator("[data-outcomes]")).to_contain_text("1 succeeded, 0 failed again")
    expect(job).to_have_count(0)
    replayed = str(wait_until(lambda: stack.job(failing)["replayed_as"], within_s=30, what="its lineage"))
    room.open(f"/jobs/{replayed}/")
    expect(page.locator("[data-status]")).to_have_attribute("data-status", "succeeded")
    assert stack.job(failing)["status"] == "failed"

"""Is what others send shown as it is, wherever it is shown, and never run?"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.room import Room
from tests.browser.test_pages import PAGES
from tests.support.waiting import wait_until

from .house import House
from .markup import markup

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: What a spreadsheet would work out, and what it takes for the beginning of that.
FORMULAS = ("=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1+1", "\n=1+1", " =1+1", "\uff1d1+1")


@pytest.fixture
def room(house: House, page: Page) -> Iterator[Room]:
    """An operator's page that fails the test where anything runs, or tries to."""
    room = Room(page, house.stack)
    alarms: list[str] = []
    page.on("dialog", lambda dialog: alarms.append(f"dialog {dialog.message}"))
    page.on("request", lambda asked: alarms.append(asked.url) if _is_ran(asked.url) else None)
    page.on("console", lambda said: alarms.append(said.text) if "Security Policy" in said.text else None)
    room.log_in()
    yield room
    assert not alarms, alarms


def _is_ran(url: str) -> bool:
    return urlsplit(url).path.startswith("/ran/")


def assert_only_text(room: Room) -> None:
    """Nothing ran, nothing was made of what was sent, no template worked anything out."""
    page = room.page
    assert page.evaluate("window.ran") is None, f"{page.url} ran {page.evaluate('window.ran')}"
    made = "img:not([src^='/static/']), script:not([src^='/static/']), a[href^='javascript:' i], [onerror]"
    assert page.locator(made).count() == 0, f"{page.url} made elements of what was sent"
    text = page.evaluate("document.body.textContent + document.title")
    assert "{{49}}" not in text and "$49" not in text


def await_status(house: House, op_id: str, status: str) -> None:
    """As the gate itself says it: jobs of another tenant are not shown to the key of these tests."""

    def is_so() -> bool:
        operation = house.store.read_operation(op_id)
        return operation is not None and operation.status == status

    wait_until(is_so, within_s=30, what=f"it to be {status}")


def test_markup_is_shown_as_it_is_wherever_it_comes_from(house: House, room: Room) -> None:
    tenant, task = markup("tenant"), markup("task")
    queue = house.make_queue(lease_s=1)
    house.start_worker(queue, pool="threads", slots=1, name=markup("worker"))
    with house.stack.client(house.make_key(tenant, "submit", "read")) as client:

        def submit(**fields: object) -> str:
            answer = client.post("/api/v1/jobs", json={"task": task, "queue": queue, **fields})
            assert answer.status_code == 202, answer.text
            return str(answer.json()["operation_id"])

        said = [markup("argument"), markup("second")]
        failed = submit(args=said, tags=[markup("tag")[:100]], payload_class="public")
        await_status(house, failed, "failed")
        running = submit(args=said, kwargs={"seconds": 3600}, ordering_key=markup("key")[:200])
        await_status(house, running, "running")
        submit(args=said, ordering_key=markup("key")[:200])
    for change in (
        {"mode": "saturated", "reason": markup("note")},
        {"mode": "normal", "reason": markup("back")},
    ):
        house.http.put("/api/v1/mode", json={"queue": queue, **change}).raise_for_status()
    house.admin.put(
        f"/api/v1/policies/{queue}", json={"owner": markup("owner")[:100], "reason": markup("why")}
    )
    held = f"/api/v1/quarantine/{failed}"
    wait_until(lambda: house.admin.get(held).status_code == 200, within_s=30, what="it to be recorded")
    main = room.page.locator("body")
    arguments = [json.dumps(text)[1:-1] for text in said]
    shown = {
        f"/jobs/{failed}/": [task, tenant, *arguments, markup("exception")],
        f"/jobs/{running}/": [task, tenant],
        f"/quarantine/{failed}/": [task, tenant, markup("exception")],
        "/workers/": [task, queue],
        "/tenants/": [tenant],
        "/audit/": [markup("note")],
        f"/queues/{queue}/": [markup("key")[:200]],
        f"/policies/{queue}/": [],
        f"/contracts/{queue}/": [],
        "/": [task],
    }
    for path, texts in shown.items():
        room.open(path)
        expect(room.page.locator("body")).to_have_attribute("data-live", "live")
        for text in texts:
            expect(main, f"{path}").to_contain_text(text)
        assert_only_text(room)
    for path in PAGES[1:]:
        room.open(f"{path}{quote(markup('item'), safe='')}/#search={quote(markup('hash'))}")
        expect(room.page.locator("body")).to_have_attribute("data-live", "live")
        assert_only_text(room)
    for address in (
        f"/{quote(markup('nowhere'))}",
        f"/login/?next={quote(markup('next'))}",
        "/jobs/%E0%A4%A/",
    ):
        room.open(address)
        assert_only_text(room)
    room.open("/quarantine/")
    room.page.fill("input[type=search]", markup("search"))
    expect(room.page.locator(".causes")).to_contain_text("Nothing held matches.")
    assert_only_text(room)
    house.admin.delete(f"/api/v1/jobs/{running}")


def test_no_cell_of_an_export_is_a_formula(house: House, room: Room) -> None:
    queue = house.make_queue(lease_s=1)
    house.start_worker(queue)
    house.submit_many([{"task": "drill.fail", "args": [formula], "queue": queue} for formula in FORMULAS])

    def are_held() -> bool:
        found = house.admin.get("/api/v1/quarantine", params={"queue": queue, "limit": 1}).json()
        return bool(found["count"] == len(FORMULAS))

    wait_until(are_held, within_s=30, what="all of them to be held")
    room.open(f"/quarantine/#queue={queue}")
    expect(room.page.locator(".jobitem")).to_have_count(len(FORMULAS))
    with room.page.expect_download() as download:
        room.page.get_by_role("button", name="Export CSV").click()
    text = download.value.path().read_bytes().decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(FORMULAS)
    for row in rows:
        for name, cell in row.items():
            assert cell.lstrip(" \t\r\n")[:1] not in tuple("=+-@\uff1d\uff0b\uff0d\uff20"), (name, cell)

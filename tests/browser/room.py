"""What does an operator do on the control room's pages, put in a test's words?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.support.stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

#: A machine that runs a whole installation beside a browser is slow; when all is well nothing waits so long.
PATIENCE_MS = 90_000


class Room:
    def __init__(self, page: Page, stack: Stack) -> None:
        self.page, self.stack = page, stack
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)

    def log_in(self, name: str = "operator", password: str = "") -> None:
        self.page.goto(f"{self.stack.base_url}/login/", wait_until="domcontentloaded")
        self.page.fill("[name=username]", name)
        self.page.fill("[name=password]", password or self.stack.password)
        self.page.click("button[type=submit]", no_wait_after=True)
        expect(self.page.locator("body")).to_have_attribute("data-live", "live")

    def open(self, path: str) -> None:
        self.page.goto(f"{self.stack.base_url}{path}", wait_until="domcontentloaded")

    def row(self, queue: str) -> Locator:
        return self.page.locator(f'.rowbody .row[data-queue="{queue}"]')

    def waiting(self, queue: str) -> Locator:
        """How many jobs wait, as the row says it."""
        return self.row(queue).locator(".cell.bounds b").first

    def figure(self, queue: str, name: str) -> Locator:
        """One of offered, accepted, refused, shed, done of a row."""
        place = ["offered", "accepted", "refused", "shed", "done"].index(name)
        return self.row(queue).locator(".flow-figures .figure").nth(place)

    def switch_to(self, mode: str, *, reason: str) -> None:
        self.page.click(f'[data-set-mode="{mode}"]')
        dialog = self.page.locator("dialog.ask")
        dialog.locator("[data-reason]").fill(reason)
        dialog.get_by_role("button", name=f"Switch to {mode.title()}").click()
        expect(dialog).to_have_count(0)
        expect(self.page.locator(f'[data-set-mode="{mode}"]')).to_have_attribute("aria-pressed", "true")

    def offer(self, task: str, *args: Any, **fields: Any) -> tuple[int, dict[str, Any]]:
        """One job at the HTTP door: the status of the answer and its document."""
        with self.stack.client() as client:
            answer = client.post("/api/v1/jobs", json={"task": task, "args": list(args), **fields})
        return answer.status_code, answer.json()

    def offer_many(self, count: int, task: str, *args: Any, queue: str) -> None:
        jobs = [{"task": task, "args": list(args), "queue": queue}] * count
        with self.stack.client() as client:
            answer = client.post("/api/v1/jobs/bulk", json=jobs)
        assert answer.status_code == 200, answer.text
        assert answer.json()["accepted"] == count

    def widest(self) -> tuple[int, int]:
        """How wide the page is, and how wide the window."""
        width, window = self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        return int(width), int(window)

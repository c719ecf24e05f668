"""How many requests are worked on at once? A few; the others wait a moment outside, and are then sent away.

This is the door's own bound, in each web process; the waiting room of a queue (tickets) is another thing.
Each request takes a thread. Two hundred threads that share one interpreter finish none in time, so the
bound makes all faster; who cannot be served within the door's two seconds is told so while that is cheap.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import MutableMapping
from typing import Any, Final

from .body_limit import Application, Receive, Send
from .counted import Teller

WORKED_ON: Final = 8
WAITING: Final = 400
PATIENCE_S: Final = 1.6  # what is left of the two seconds is for the work itself
BOUNDED: Final = ("/api/", "/metrics")  # pages, files and the health check are let by
DOOR: Final = "/api/v1/jobs"


def is_door(scope: MutableMapping[str, Any]) -> bool:
    """Submitting and asking need Redis alone: readers of a database that hangs must not hold them up."""
    path = str(scope.get("path", ""))
    return scope.get("method", "POST") in ("GET", "POST") and (path == DOOR or path.startswith(DOOR + "/"))


class Entrance:
    def __init__(
        self,
        application: Application,
        *,
        worked_on: int = WORKED_ON,
        waiting: int = WAITING,
        patience_s: float = PATIENCE_S,
        teller: Teller | None = None,
    ) -> None:
        self.application = application
        self.patience_s = patience_s
        self.slots = {door: asyncio.Semaphore(worked_on) for door in (True, False)}
        self.waiting = {True: 0, False: 0}
        self.most_waiting = waiting
        self.teller = teller
        if teller:
            teller.watch(lambda: self.waiting[True])

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if not str(scope.get("path", "")).startswith(BOUNDED):
            await self.application(scope, receive, send)
            return
        door = is_door(scope)
        if not await self._come_in(door):
            await self._send_away(send)
            return
        try:
            await self.application(scope, receive, send)
        finally:
            self.slots[door].release()

    async def _come_in(self, door: bool) -> bool:
        if self.waiting[door] >= self.most_waiting:
            return False
        self.waiting[door] += 1
        if self.teller and self.slots[door].locked():
            self.teller.wake()
        try:
            await asyncio.wait_for(self.slots[door].acquire(), self.patience_s)
        except TimeoutError:
            return False
        finally:
            self.waiting[door] -= 1
        return True

    async def _send_away(self, send: Send) -> None:
        seconds = math.ceil(1 + random.random() * 4)
        document = {
            "type": "urn:sluicegate:problem:unavailable",
            "title": "Service Unavailable",
            "status": 503,
            "reason": "unavailable",
            "detail": "More requests wait at this door than it can answer in time. Nothing was accepted.",
            "retry_after_s": seconds,
            "why": "door",
        }
        body = json.dumps(document).encode()
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            (b"retry-after", str(seconds).encode()),
            (b"ratelimit-policy", f'"door";q={self.most_waiting};qu="concurrent-requests"'.encode()),
            (b"ratelimit", f'"door";r=0;t={seconds}'.encode()),
        ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})

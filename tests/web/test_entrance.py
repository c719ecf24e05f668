"""Are more requests than the door can answer in time told so, and the health check never?"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from asgiref.sync import async_to_sync

from queues_ui.access.entrance import Entrance


async def ask(room: Entrance, path: str) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    await room({"type": "http", "path": path}, receive, send)
    return sent


def test_the_bound_holds_and_the_rest_are_sent_away():
    async def steps() -> None:
        at_once, most, open_door = [0], [0], asyncio.Event()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
            if scope["path"].startswith("/api/"):
                await open_door.wait()
            at_once[0] -= 1
            await send({"type": "http.response.start", "status": 200, "headers": []})

        room = Entrance(application, worked_on=2, waiting=3, patience_s=0.1)
        asked = [asyncio.create_task(ask(room, "/api/v1/jobs")) for _ in range(8)]
        await asyncio.sleep(0.05)
        assert (await ask(room, "/healthz"))[0]["status"] == 200
        await asyncio.sleep(0.2)
        open_door.set()
        answers = [await task for task in asked]
        assert [sent[0]["status"] for sent in answers].count(200) == 2
        refused = next(sent for sent in answers if sent[0]["status"] == 503)
        said = json.loads(refused[1]["body"])
        assert (said["reason"], said["why"]) == ("unavailable", "door")
        assert int(dict(refused[0]["headers"])[b"retry-after"]) == said["retry_after_s"] >= 1
        assert most[0] == 3  # two at work and the health check
        assert (await ask(room, "/api/v1/jobs"))[0]["status"] == 200

    async_to_sync(steps)()

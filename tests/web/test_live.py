"""Does who may watch see frames at once, and does nobody else?"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.layers import channel_layers, get_channel_layer

from config.asgi import application
from queues_ui.access.caller import forget_keys
from queues_ui.consumers import live, relay
from tests.field.house import memory_of
from workers.models import ApiKey

from .conftest import OPERATOR_KEY

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

KEY = {"authorization": f"Bearer {OPERATOR_KEY}"}


@pytest.fixture(autouse=True)
def stream(gate, redis_url: str, settings: Any) -> None:
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [{"address": redis_url}], "prefix": "sluicegate:{main}:live"},
        }
    }
    channel_layers.backends.clear()


class Watching(ApplicationCommunicator):
    """One reader of the stream, as an ASGI server would speak for it."""

    async def open(self) -> None:
        await self.send_input({"type": "websocket.connect"})
        assert (await self.receive_output(timeout=5))["type"] == "websocket.accept"

    async def next_frame(self) -> Any:
        return json.loads((await self.receive_output(timeout=5))["text"])

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(timeout=5)


def watch(headers: dict[str, str]) -> Watching:
    raw = [(name.encode(), value.encode()) for name, value in {"host": "testserver", **headers}.items()]
    scope = {"type": "websocket", "path": "/ws/live", "query_string": b"", "headers": raw, "subprotocols": []}
    return Watching(application, scope)


def run(steps: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await steps()
        await get_channel_layer().flush()

    async_to_sync(whole)()


async def closing_code(socket: Watching) -> int:
    await socket.open()
    return int((await socket.receive_output(timeout=5))["code"])


def test_the_newest_frame_comes_on_connecting(frame):
    async def steps() -> None:
        socket = watch(KEY)
        await socket.open()
        said = await socket.next_frame()
        assert (said["type"], said["seq"]) == ("frame", 7)
        await socket.leave()

    run(steps)


def test_frames_of_the_group_are_handed_on_as_they_are(frame):
    async def steps() -> None:
        sockets = [watch(KEY) for _ in range(3)]
        for socket in sockets:
            await socket.open()
            await socket.next_frame()
        await asyncio.sleep(0.5)
        text = json.dumps({"seq": 8, "text": "</script>{{7*7}}"})
        await get_channel_layer().group_send(relay.GROUP, {"type": "frame.text", "text": text})
        for socket in sockets:
            said = await socket.next_frame()
            assert said == {"type": "frame", "seq": 8, "text": "</script>{{7*7}}"}
            await socket.leave()

    run(steps)


def test_a_slow_reader_gets_the_newest_frame_and_no_queue():
    class Socket(live.LiveConsumer):
        def __init__(self) -> None:
            self.newest, self.wake = None, asyncio.Event()

    async def steps() -> None:
        reader = Socket()
        for seq in range(1000):
            reader.take(json.dumps({"seq": seq}))
        assert json.loads(reader.newest)["seq"] == 999

    run(steps)


def test_a_reader_that_reads_nothing_keeps_nobody_waiting(frame, monkeypatch):
    """A hundred readers, frames of 10 MB, and one that takes none: it is let go, they get each."""
    monkeypatch.setattr(live, "SLOWEST_SEND_S", 0.5)
    closed: list[int] = []

    async def stuck() -> None:
        incoming = iter([{"type": "websocket.connect"}])

        async def receive() -> dict[str, Any]:
            for message in incoming:
                return message
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "websocket.close":
                closed.append(message["code"])
            elif message["type"] == "websocket.send":
                await asyncio.Event().wait()

        await application(watch(KEY).scope, receive, send)

    async def steps() -> None:
        slow = asyncio.create_task(stuck())
        sockets = [watch(KEY) for _ in range(100)]
        for socket in sockets:
            await socket.open()
            await socket.next_frame()
        await asyncio.sleep(0.5)
        before = memory_of(os.getpid())
        for seq in range(8, 11):
            text = json.dumps({"seq": seq, "ballast": "x" * 10_000_000})
            await get_channel_layer().group_send(relay.GROUP, {"type": "frame.text", "text": text})
            for socket in sockets:
                taken = (await socket.receive_output(timeout=5))["text"]
                assert taken.startswith(f'{{"type": "frame", "seq": {seq},')
        # One frame is one text, however many read it.
        assert memory_of(os.getpid()) - before < 300_000_000
        assert closed == [live.TOO_SLOW]
        for socket in sockets:
            await socket.leave()
        slow.cancel()

    run(steps)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, live.UNAUTHORIZED),
        ({"authorization": "Bearer wrong"}, live.UNAUTHORIZED),
        ({"cookie": "sluicegate_session=forged"}, live.UNAUTHORIZED),
        ({**KEY, "origin": "https://evil.example"}, live.FORBIDDEN),
        ({**KEY, "origin": "null"}, live.FORBIDDEN),
    ],
)
def test_who_may_not_watch_is_told_so(frame, headers, code):
    async def steps() -> None:
        assert await closing_code(watch(headers)) == code

    run(steps)


def test_a_key_without_the_right_to_read_is_refused(key_for, frame):
    key = key_for("submit").headers["Authorization"]

    async def steps() -> None:
        assert await closing_code(watch({"authorization": key})) == live.FORBIDDEN

    run(steps)


def test_a_session_may_watch_from_its_own_origin(logged_in, frame):
    cookie = f"sluicegate_session={logged_in('viewer').client.cookies['sluicegate_session'].value}"

    async def steps() -> None:
        socket = watch({"cookie": cookie, "origin": "https://testserver"})
        await socket.open()
        assert (await socket.next_frame())["seq"] == 7
        await socket.leave()

    run(steps)


def test_a_revoked_key_stops_watching(frame, monkeypatch):
    monkeypatch.setattr(live, "CHECK_RIGHTS_S", 0.1)

    async def steps() -> None:
        socket = watch(KEY)
        await socket.open()
        await socket.next_frame()
        await sync_to_async(ApiKey.objects.all().delete)()
        forget_keys()
        assert (await socket.receive_output(timeout=5))["code"] == live.UNAUTHORIZED

    run(steps)


def test_a_session_that_ended_stops_watching(logged_in, frame, monkeypatch):
    monkeypatch.setattr(live, "CHECK_RIGHTS_S", 0.1)
    client = logged_in("viewer").client
    cookie = f"sluicegate_session={client.cookies['sluicegate_session'].value}"

    async def steps() -> None:
        socket = watch({"cookie": cookie})
        await socket.open()
        await socket.next_frame()
        await sync_to_async(client.logout)()
        assert (await socket.receive_output(timeout=5))["code"] == live.UNAUTHORIZED

    run(steps)

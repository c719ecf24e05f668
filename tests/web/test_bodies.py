"""Is a body that is too large refused while it arrives, without being held?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from config import asgi
from queues_ui.access.body_limit import BodyLimit
from queues_ui.api.routes import api

LIMIT = 1000


def post(chunks: list[bytes], *, length: int | None = None) -> tuple[int, int, bytes]:
    """Status, chunks read, and the body that the application saw."""
    read, sent, seen = [0], [], []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        seen.append(message["body"])
        assert not message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> dict[str, Any]:
        read[0] += 1
        return {"type": "http.request", "body": chunks[read[0] - 1], "more_body": read[0] < len(chunks)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    async_to_sync(BodyLimit(application, max_bytes=LIMIT))(scope, receive, send)
    assert sent[0]["status"] == 200 or json.loads(sent[1]["body"])["field"] == "body"
    return sent[0]["status"], read[0], b"".join(seen)


@pytest.mark.parametrize(("size", "status"), [(LIMIT - 1, 200), (LIMIT, 200), (LIMIT + 1, 413)])
def test_the_limit_is_exact(size, status):
    assert post([b"x" * size])[0] == status
    assert post([b"x" * size], length=size)[0] == status


def test_a_declared_length_is_refused_before_anything_is_read():
    assert post([b"x"], length=LIMIT + 1) == (413, 0, b"")


def test_a_chunked_body_is_refused_at_the_limit():
    status, read, seen = post([b"x" * 100] * 1000)
    assert (status, read, seen) == (413, 11, b"")


def test_whatever_the_address_a_body_is_counted_in_bytes_at_the_door(settings):
    """Routes bound rows and texts; what a body may come to in bytes is bounded once, before all of them."""
    inner = asgi.door
    assert isinstance(inner, BodyLimit)
    assert inner.max_bytes == settings.SLUICEGATE_MAX_BODY_BYTES
    routes = [route for path in api.get_openapi_schema()["paths"].values() for route in path.values()]
    bodies = [route for route in routes if "requestBody" in route]
    assert len(bodies) > 10
    assert all("413" in route["responses"] for route in bodies)


def test_a_body_in_chunks_arrives_whole():
    assert post([b"ab", b"cd", b""]) == (200, 3, b"abcd")

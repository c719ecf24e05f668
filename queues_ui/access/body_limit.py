"""Is a body too large? Found out while it arrives, so that no more than the limit is ever held."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class BodyLimit:
    """Django spools a body to disk before a view runs; here it is counted as it comes, chunked or not."""

    def __init__(self, application: Application, *, max_bytes: int | None = None) -> None:
        self.application = application
        self.max_bytes = settings.SLUICEGATE_MAX_BODY_BYTES if max_bytes is None else max_bytes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if _declared_length(scope) > self.max_bytes:
            await self._refuse(send)
            return
        parts: list[bytes] = []
        held, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client has gone
            part = message.get("body", b"")
            held += len(part)
            if held > self.max_bytes:
                await self._refuse(send)
                return
            parts.append(part)
            more = message.get("more_body", False)
        body = b"".join(parts)
        given = False

        async def give_once() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.application(scope, give_once, send)

    async def _refuse(self, send: Send) -> None:
        document = {
            "type": "urn:sluicegate:problem:size",
            "title": "Content Too Large",
            "status": 413,
            "reason": "size",
            "detail": f"A request body may have at most {self.max_bytes} bytes.",
            "field": "body",
        }
        body = json.dumps(document).encode()
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),  # the rest of the body is not read
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _declared_length(scope: MutableMapping[str, Any]) -> int:
    for name, value in scope.get("headers", ()):
        if name == b"content-length":
            try:
                return int(value)
            except ValueError:
                return 0
    return 0

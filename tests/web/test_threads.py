"""Does a request reach the views whole, as the server had it?"""

from __future__ import annotations

import json
from typing import Any

from asgiref.sync import async_to_sync

from queues_ui.access.threads import Threads, build_environ

SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/api/v1/größe",
    "query_string": b"a=%C3%A9",
    "client": ("192.0.2.7", 1234),
    "server": ("gate.example", 443),
    "scheme": "https",
    "headers": [
        (b"content-type", b"application/json"),
        (b"content-length", b"999"),
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x-forwarded-for", b"192.0.2.7"),
        (b"x_forwarded_for", b"127.0.0.1"),
    ],
}


def test_the_environment_says_what_the_scope_said():
    environ = build_environ(dict(SCOPE), b"{}")
    assert environ["PATH_INFO"].encode("latin1").decode() == "/api/v1/größe"
    assert environ["CONTENT_LENGTH"] == "2"  # what has arrived, not what was announced
    assert environ["HTTP_COOKIE"] == "a=1; b=2"
    assert environ["HTTP_X_FORWARDED_FOR"] == "192.0.2.7"  # not overwritten by its look-alike
    assert (environ["REMOTE_ADDR"], environ["wsgi.url_scheme"]) == ("192.0.2.7", "https")
    assert environ["wsgi.input"].read() == b"{}"


def test_the_answer_goes_out_as_it_was_made():
    closed: list[bool] = []

    class Body(list[bytes]):
        def close(self) -> None:
            closed.append(True)

    def application(environ: dict[str, Any], start_response: Any) -> Body:
        start_response("202 Accepted", [("X-Sent", "1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
        return Body([b"[", environ["wsgi.input"].read(), b"]"])

    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"7", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async_to_sync(Threads(application))(dict(SCOPE), receive, send)
    assert sent[0]["status"] == 202
    assert sent[0]["headers"].count((b"set-cookie", b"b=2")) == 1
    assert json.loads(sent[1]["body"]) == [7]
    assert closed == [True]

"""Which answers does a tiny real HTTP server give, in order, and what was it asked?"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Scripted:
    """``drop`` closes the connection after reading the request, without an answer."""

    status: int
    document: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


ACCEPTED = Scripted(
    202,
    {
        "operation_id": "op-1",
        "status": "pending",
        "queue": "bulk",
        "accepted_at_ms": 1_700_000_000_000,
        "durability": "everysec",
        "status_url": "/api/v1/jobs/op-1",
    },
)
DROPPED = Scripted(0, drop=True)


def refused(retry_after: str | None, *, status: int = 429, reason: str = "count") -> Scripted:
    document = {"type": "about:blank", "status": status, "reason": reason, "detail": "full", "queue": "bulk"}
    return Scripted(status, document, {} if retry_after is None else {"Retry-After": retry_after})


@contextmanager
def serve(answers: Sequence[Scripted]) -> Iterator[tuple[str, list[Asked]]]:
    """The server's URL and the list of what it was asked; past the last answer it repeats that one."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(Asked(self.command, self.path, dict(self.headers), json.loads(raw) if raw else None))
            scripted = answers[min(len(asked), len(answers)) - 1]
            if scripted.drop:
                self.close_connection = True
                return
            content = json.dumps(scripted.document).encode()
            self.send_response(scripted.status)
            for name, value in {**scripted.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)

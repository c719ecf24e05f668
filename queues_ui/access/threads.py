"""How do synchronous views run under an asynchronous server? In a fixed set of threads, one hop a request.

Django's own ASGI handler makes a thread, and so a database connection, for each request and changes
between loop and thread several times; a submit took twice as long by it. The body arrives whole (see
body_limit), no answer here streams, and so the WSGI handler in a pool does all that is needed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

from .body_limit import Receive, Send
from .entrance import BOUNDED, WORKED_ON, is_door

PAGES: int = 4  # threads of their own, so that a dead Redis that holds the API holds up no page
PROBES: int = 2  # health and readiness: whatever hangs, a supervisor gets its answer
PROBED = ("/healthz", "/readyz")

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
REPEATED = "sluicegate.repeated"  # names of fields that a request had more than once; what they say is joined

Answer = tuple[int, list[tuple[bytes, bytes]], bytes]


class Threads:
    def __init__(self, application: Wsgi) -> None:
        self.application = application
        self.door = ThreadPoolExecutor(WORKED_ON, thread_name_prefix="door")
        self.api = ThreadPoolExecutor(WORKED_ON, thread_name_prefix="api")
        self.probes = ThreadPoolExecutor(PROBES, thread_name_prefix="probes")
        self.pages = ThreadPoolExecutor(PAGES, thread_name_prefix="pages")

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"")
        pool = self._pool_for(scope)
        environ = build_environ(scope, body)
        status, headers, content = await asyncio.get_running_loop().run_in_executor(
            pool, self._answer, environ
        )
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _pool_for(self, scope: MutableMapping[str, Any]) -> ThreadPoolExecutor:
        if is_door(scope):
            return self.door
        if scope["path"].startswith(BOUNDED):
            return self.api
        return self.probes if scope["path"] in PROBED else self.pages

    def _answer(self, environ: dict[str, Any]) -> Answer:
        started: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            started[:] = [status, headers]

        response = self.application(environ, start_response)
        try:
            content = b"".join(response)
        finally:
            close = getattr(response, "close", None)
            if close is not None:
                close()  # the end of the request, for Django: connections are looked after here
        status, headers = started
        raw = [(name.lower().encode("latin1"), value.encode("latin1")) for name, value in headers]
        return int(status.split(" ", 1)[0]), raw, content


def build_environ(scope: MutableMapping[str, Any], body: bytes) -> dict[str, Any]:
    """A request as PEP 3333 has it."""
    host, port = scope.get("server") or ("localhost", 80)
    client = scope.get("client")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": scope.get("root_path", ""),
        "PATH_INFO": scope["path"].encode("utf-8", "replace").decode("latin1"),
        "QUERY_STRING": scope.get("query_string", b"").decode("latin1"),
        "SERVER_PROTOCOL": f"HTTP/{scope.get('http_version', '1.1')}",
        "SERVER_NAME": host or "localhost",
        "SERVER_PORT": str(port or 0),
        "REMOTE_ADDR": str(client[0]) if client else "",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope.get("headers", ()):
        name, value = raw_name.decode("latin1"), raw_value.decode("latin1")
        if name == "content-length" or "_" in name:
            continue  # X_Forwarded_For must not pass for X-Forwarded-For
        key = "CONTENT_TYPE" if name == "content-type" else f"HTTP_{name.upper().replace('-', '_')}"
        joint = "; " if name == "cookie" else ","
        if key in environ:
            environ.setdefault(REPEATED, set()).add(name)
        environ[key] = f"{environ[key]}{joint}{value}" if key in environ else value
    return environ

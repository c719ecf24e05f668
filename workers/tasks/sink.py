"""What answers the demonstration's calls? A small HTTP server on loopback that can be made slow.

python -m workers.tasks.sink --port 8099
POST /hooks/NAME     takes a webhook; NAME `broken` answers 500, `gone` answers 410
POST /enrich/NAME    answers as the downstream NAME
GET  /settings       PUT /settings/NAME {"latency_ms": 40, "jitter_ms": 20, "concurrency": 8, "fail_share": 0}
GET  /counts
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import signal
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..figures import is_number

MAX_BODY_BYTES = 1024 * 1024
MAX_NAMES = 100
#: A caller waits this long for its turn, then hears 503.
MAX_TURN_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How one downstream answers. ``concurrency``: calls served at a time, the others wait their turn."""

    latency_ms: float = 40.0
    jitter_ms: float = 20.0
    concurrency: int = 8
    fail_share: float = 0.0

    def changed(self, fields: dict[str, Any]) -> Behaviour:
        known = {field.name for field in dataclasses.fields(self)}
        for name, value in fields.items():
            if name not in known:
                raise ValueError(f"{name} is not known; known are {', '.join(sorted(known))}")
            if not is_number(value) or value < 0:
                raise ValueError(f"{name} must be a number of at least 0")
        new = dataclasses.replace(self, **fields)
        if new.latency_ms + new.jitter_ms > 30_000 or not 1 <= new.concurrency <= 64 or new.fail_share > 1:
            raise ValueError("latency at most 30 s, concurrency 1 to 64, fail_share at most 1")
        return dataclasses.replace(new, concurrency=int(new.concurrency))


class Downstream:
    """One named downstream: its behaviour, who is inside, and what it counted."""

    def __init__(self) -> None:
        self.behaviour = Behaviour()
        self.calls = self.failed = self.inside = self.most_inside = 0
        self._turn = threading.Condition()

    def set_behaviour(self, behaviour: Behaviour) -> None:
        with self._turn:
            self.behaviour = behaviour
            self._turn.notify_all()

    def serve(self) -> int:
        """Take the time that a call takes here; the status to answer."""
        with self._turn:
            self.calls += 1
            has_turn = self._turn.wait_for(lambda: self.inside < self.behaviour.concurrency, MAX_TURN_WAIT_S)
            if not has_turn:
                self.failed += 1
                return 503
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            behaviour = self.behaviour
        try:
            time.sleep((behaviour.latency_ms + random.uniform(0, behaviour.jitter_ms)) / 1000)
        finally:
            with self._turn:
                self.inside -= 1
                is_failure = random.random() < behaviour.fail_share
                self.failed += is_failure
                self._turn.notify()
        return 503 if is_failure else 200


class Sink(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._downstreams: dict[str, Downstream] = {}
        self._lock = threading.Lock()

    def find(self, name: str) -> Downstream:
        with self._lock:
            if name not in self._downstreams and len(self._downstreams) >= MAX_NAMES:
                raise ValueError(f"more than {MAX_NAMES} names")
            return self._downstreams.setdefault(name, Downstream())

    def list_all(self) -> dict[str, Downstream]:
        with self._lock:
            return dict(self._downstreams)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Sink
    timeout = 60

    def do_GET(self) -> None:
        if not self._is_addressed_here():
            return
        all_of_them = self.server.list_all()
        if self.path == "/settings":
            self._answer(200, {name: dataclasses.asdict(d.behaviour) for name, d in all_of_them.items()})
        elif self.path == "/counts":
            counts = {
                name: {"calls": d.calls, "failed": d.failed, "inside": d.inside, "most_inside": d.most_inside}
                for name, d in all_of_them.items()
            }
            self._answer(200, counts)
        else:
            self._answer(404, {"error": "not here"})

    def do_POST(self) -> None:
        if not self._is_addressed_here() or self._read() is None:
            return
        kind, _, name = self.path.lstrip("/").partition("/")
        if kind not in ("hooks", "enrich") or not name or len(name) > 60:
            self._answer(404, {"error": "not here"})
            return
        if kind == "hooks" and name in ("broken", "gone"):
            self._answer(500 if name == "broken" else 410, {"error": name})
            return
        try:
            downstream = self.server.find(name)
        except ValueError as exc:
            self._answer(404, {"error": str(exc)})
            return
        started = time.monotonic()
        status = downstream.serve()
        self._answer(status, {"downstream": name, "took_ms": round((time.monotonic() - started) * 1000)})

    def do_PUT(self) -> None:
        # A page in a browser cannot send JSON across origins without a preflight, which is not answered here.
        if not self._is_addressed_here():
            return
        if self.headers.get_content_type() != "application/json":
            self._answer(415, {"error": "send application/json"})
            return
        body = self._read()
        if body is None:
            return
        kind, _, name = self.path.lstrip("/").partition("/")
        if kind != "settings" or not name or len(name) > 60:
            self._answer(404, {"error": "PUT /settings/NAME"})
            return
        try:
            downstream = self.server.find(name)
            fields = json.loads(body)
            if not isinstance(fields, dict):
                raise TypeError("send an object")
            downstream.set_behaviour(downstream.behaviour.changed(fields))
        except (ValueError, TypeError) as exc:
            self._answer(422, {"error": str(exc)})
            return
        self._answer(200, dataclasses.asdict(downstream.behaviour))

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: a line for every call would be most of the demonstration's output."""

    def _is_addressed_here(self) -> bool:
        # A name that somebody points at 127.0.0.1 (DNS rebinding) is not ours.
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host in ("127.0.0.1", "localhost"):
            return True
        self.close_connection = True
        self._answer(421, {"error": "not the host that is served here"})
        return False

    def _read(self) -> bytes | None:
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= MAX_BODY_BYTES or self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            self._answer(413, {"error": "body too large, or of no stated length"})
            return None
        return self.rfile.read(length)

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    sink = Sink(options.port)
    # shutdown() waits for serve_forever, which runs in this very thread: ask from another one.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=sink.shutdown).start())
    print(f"sink on http://127.0.0.1:{sink.server_port}", flush=True)
    sink.serve_forever(poll_interval=0.2)


if __name__ == "__main__":
    main()

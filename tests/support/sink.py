"""A small HTTP service that bears so many calls at once: beyond that they queue in it, or are turned away."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Sink:
    """``connections`` may be changed while it runs. ``turns_away``: 503 at once in place of a wait."""

    def __init__(self, *, connections: int, service_s: float, turns_away: bool = False) -> None:
        self.connections, self.service_s, self.turns_away = connections, service_s, turns_away
        self.served = self.refused = 0
        self._busy, self._room = 0, threading.Condition()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(sink.serve())
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def serve(self) -> int:
        with self._room:
            if self.turns_away and self._busy >= self.connections:
                self.refused += 1
                return 503
            self._room.wait_for(lambda: self._busy < self.connections, timeout=30)
            self._busy += 1
        time.sleep(self.service_s)
        with self._room:
            self._busy -= 1
            self.served += 1
            self._room.notify_all()
        return 200

    def resize(self, connections: int) -> None:
        with self._room:
            self.connections = connections
            self._room.notify_all()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

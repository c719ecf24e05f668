"""Who watches the stream in these tests? Readers of the WebSocket, as many browsers would be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.stack import Stack


@contextmanager
def open_stream(stack: Stack) -> Iterator[ClientConnection]:
    """One reader of the stream, whose first frame has come."""
    address = stack.base_url.replace("http", "ws", 1) + "/ws/live"
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    with connect(address, additional_headers=headers, max_size=None, proxy=None) as socket:
        socket.recv(timeout=30)
        yield socket


class Viewers(ExitStack):
    """``count`` readers that take every frame, for as long as the block lasts."""

    def __init__(self, stack: Stack, count: int) -> None:
        super().__init__()
        self.frames = 0
        for _ in range(count):
            socket = self.enter_context(open_stream(stack))
            thread = threading.Thread(target=self._read, args=(socket,))
            thread.start()
            self.callback(thread.join, 10)
            self.callback(socket.close)

    def _read(self, socket: ClientConnection) -> None:
        try:
            for _ in socket:
                self.frames += 1
        except ConnectionClosed:
            pass

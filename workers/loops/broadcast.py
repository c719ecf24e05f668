"""How does a frame reach the browsers? As one text to the group that every page has joined."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

GROUP = "live"
SEND_TIMEOUT_S = 1.5


class GroupBroadcast:
    """Sends on a channel layer from a thread, on one event loop of its own.

    The layer keeps its connections by event loop: a new loop for each frame would leave one behind each time.
    """

    def __init__(self, layer_of: Callable[[], Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._layer_of = layer_of
        self._layer: Any = None
        threading.Thread(target=self._loop.run_forever, name="monitor-broadcast", daemon=True).start()

    def send(self, text: str) -> None:
        asyncio.run_coroutine_threadsafe(self._send(text), self._loop).result(SEND_TIMEOUT_S)

    async def _send(self, text: str) -> None:
        if self._layer is None:
            self._layer = self._layer_of()
        await self._layer.group_send(GROUP, {"type": "frame.text", "text": text})

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

"""How do frames reach the readers of this process? One subscription, decoded once, handed to all."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final, Protocol

from channels.layers import get_channel_layer

log = logging.getLogger(__name__)

GROUP: Final = "live"
FIRST_RETRY_S: Final = 0.5
LONGEST_RETRY_S: Final = 5.0
SILENT_S: Final = (
    5.0  # without a frame for this long the subscription is made anew: pub/sub may have died unseen
)


def as_message(text: str) -> str:
    """A frame says of itself that it is one; the text is not parsed for that."""
    if text.startswith('{"type"'):
        return text
    return '{"type": "frame", ' + text.lstrip()[1:]


class Reader(Protocol):
    def take(self, text: str) -> None: ...


class Relay:
    """Runs while there are readers."""

    def __init__(self) -> None:
        self.readers: set[Reader] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, reader: Reader) -> None:
        self.readers.add(reader)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def remove(self, reader: Reader) -> None:
        self.readers.discard(reader)
        if not self.readers and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        retry_s = FIRST_RETRY_S
        while self.readers:
            try:
                await self._follow()
                retry_s = FIRST_RETRY_S
            except asyncio.CancelledError:
                raise
            except Exception as fault:  # noqa: BLE001  redis's errors are not known here
                log.warning("the live group cannot be followed: %s", fault)
                await asyncio.sleep(retry_s * (0.5 + random.random()))
                retry_s = min(LONGEST_RETRY_S, retry_s * 2)

    async def _follow(self) -> None:
        """Hands on frames until a silence; then the caller subscribes again."""
        layer = get_channel_layer()
        channel = await asyncio.wait_for(layer.new_channel(), SILENT_S)
        try:
            await asyncio.wait_for(layer.group_add(GROUP, channel), SILENT_S)
            while True:
                message = await asyncio.wait_for(layer.receive(channel), SILENT_S)
                text = message.get("text")
                if isinstance(text, str):
                    text = as_message(text)  # once: a thousand readers hold one text, not a copy each
                    for reader in tuple(self.readers):
                        reader.take(text)
        except TimeoutError:
            log.debug("no frame for %s s", SILENT_S)
            await asyncio.wait_for(layer.flush(), SILENT_S)
        finally:
            try:
                await asyncio.wait_for(layer.group_discard(GROUP, channel), 1)
            except Exception:  # noqa: BLE001  it is gone either way
                log.debug("the live group was left without a word")


_relays: dict[asyncio.AbstractEventLoop, Relay] = {}


def relay() -> Relay:
    """The relay of the running loop: a server has one, tests have one each."""
    loop = asyncio.get_running_loop()
    if loop not in _relays:
        _relays.clear()  # loops that have ended
        _relays[loop] = Relay()
    return _relays[loop]

"""Do a thousand readers of one web process each get every frame, and does it stay light?"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

import pytest
from channels.layers import get_channel_layer

from queues_ui.consumers import relay
from tests.field.house import memory_of

from .test_live import KEY, Watching, run, stream, watch

__all__ = ["stream"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.soak, pytest.mark.timeout(900)]

READERS, FRAMES, FRAME_BYTES, FRAME_S = 1_000, 30, 60_000, 1.0  # a frame of ten queues and fifty tenants


async def open_in_time(socket: Watching) -> None:
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(timeout=60))["type"] == "websocket.accept"
    assert json.loads((await socket.receive_output(timeout=60))["text"])["seq"] == 7


def test_a_thousand_readers_get_frames_in_time_and_memory_is_flat(frame: Any) -> None:
    async def steps() -> None:
        sockets = [watch(KEY) for _ in range(READERS)]
        began = time.monotonic()
        for start in range(0, READERS, 50):
            await asyncio.gather(*(open_in_time(socket) for socket in sockets[start : start + 50]))
        opened_s = time.monotonic() - began
        late: list[float] = []
        sent_at: dict[int, float] = {}

        async def read(socket: Watching) -> None:
            """Frames may be skipped by who is slow; the last must come."""
            seq = 0
            while seq < 100 + FRAMES - 1:
                text = (await socket.receive_output(timeout=60))["text"]
                seq = int(text[24 : text.index(",", 24)])
                late.append(time.monotonic() - sent_at[seq])

        readers = [asyncio.create_task(read(socket)) for socket in sockets]
        await asyncio.sleep(1)
        memory: list[int] = []
        longest_turn = 0.0

        async def others() -> None:
            """What anything else in the process waits for its turn."""
            nonlocal longest_turn
            while True:
                asked = time.monotonic()
                await asyncio.sleep(0.01)
                longest_turn = max(longest_turn, time.monotonic() - asked - 0.01)

        watching = asyncio.create_task(others())
        for seq in range(100, 100 + FRAMES):
            began = time.monotonic()
            text = json.dumps({"seq": seq, "ballast": "x" * FRAME_BYTES})
            sent_at[seq] = time.monotonic()
            await get_channel_layer().group_send(relay.GROUP, {"type": "frame.text", "text": text})
            await asyncio.sleep(max(0.0, FRAME_S - (time.monotonic() - began)))
            memory.append(memory_of(os.getpid()))
        await asyncio.wait_for(asyncio.gather(*readers), 120)
        watching.cancel()
        late.sort()
        grown = (memory[-1] - memory[4]) / 1e6
        print(
            f"opened in {opened_s:.1f} s; {len(late)} frames of {READERS * FRAMES}, "
            f"late by {late[len(late) // 2]:.2f} s, at most {late[-1]:.2f} s, "
            f"99 of 100 by {late[int(len(late) * 0.99)]:.2f} s; "
            f"longest turn of others {longest_turn:.2f} s; "
            f"memory {memory[0] / 1e6:.0f} MB, grown {grown:.1f} MB"
        )
        assert late[-1] < 2 * FRAME_S + 1
        assert grown < 20, memory
        assert longest_turn < 2 * FRAME_S  # the readers themselves take their turns in this process too
        await asyncio.gather(*(socket.leave() for socket in sockets))

    run(steps)

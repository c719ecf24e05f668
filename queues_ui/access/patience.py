"""May a submit wait for room (`Prefer: wait=N`, RFC 7240)? Yes, and it holds no thread meanwhile.

A queue with on_full = block lets producers wait for room. A refused submit that asked for it is held here,
outside the door's bound on requests, and is offered again when the gate tells of room: at most N seconds from
its arrival, and at most the queue's block_s. How many may wait is bounded; one more is refused at once.

The view names the queue and its block_s in a header that never leaves the house.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, MutableMapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from workers.exceptions import StoreUnavailable
from workers.store import Store

from .body_limit import Application, Message, Receive, Send
from .counted import Teller

MOST_WAITING: Final = 1000
LONGEST_S: Final = 300.0
PROBE_S: Final = 0.7  # told of no room for so long, the first in line looks by itself
PATH: Final = "/api/v1/jobs"
ROOM_HEADER: Final = "Sluicegate-Room"  # QUEUE;BLOCK_S, of a refusal that waiting may help
WAITED_HEADER: Final = "Sluicegate-Waited-Ms"  # how long a submit that is offered again has waited

_WAIT = re.compile(r'\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;.*)?', re.ASCII | re.IGNORECASE)


def wait_preferred(prefer: str) -> int | None:
    """Seconds of the first `wait` among the preferences; None where there is none that can be read."""
    for part in prefer.split(","):
        found = _WAIT.fullmatch(part)
        if found:
            return int(found.group(1))
    return None


@dataclass(slots=True)
class _Waiter:
    since: float
    woken: asyncio.Future[None]


@dataclass(slots=True)
class _Answer:
    start: Message = field(default_factory=dict)
    body: list[Message] = field(default_factory=list)

    def header(self, name: str) -> str | None:
        wanted = name.lower().encode()
        return next((value.decode() for key, value in self.start["headers"] if key.lower() == wanted), None)


class RoomBell:
    """Who waits for room in which queue, first come first woken; one thread listens for all of a process."""

    def __init__(self, open_store: Callable[[], Store], *, most: int = MOST_WAITING) -> None:
        self._open_store = open_store
        self._most = most
        self._lines: dict[str, list[_Waiter]] = {}
        self._lock = threading.Lock()
        self._listener: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.waiting = 0

    @property
    def is_full(self) -> bool:
        return self.waiting >= self._most

    async def wait(self, queue: str, *, since: float, timeout_s: float) -> bool:
        """Whether it is worth looking again; False when the time is over. Who came first is woken first."""
        loop = self._loop = asyncio.get_running_loop()
        waiter = _Waiter(since, loop.create_future())
        with self._lock:
            line = self._lines.setdefault(queue, [])
            place = next((i for i, other in enumerate(line) if other.since > since), len(line))
            line.insert(place, waiter)
            if self._listener is None:
                self._listener = threading.Thread(target=self._listen, name="room-bell", daemon=True)
                self._listener.start()
        try:
            await asyncio.wait_for(waiter.woken, timeout_s)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                if waiter in line:
                    line.remove(waiter)
                if not line and self._lines.get(queue) is line:
                    del self._lines[queue]
        return True

    def wake(self, queue: str) -> None:
        """Wakes the first in line of a queue; on the loop's own thread."""
        with self._lock:
            line = self._lines.get(queue) or []
            first = line.pop(0) if line else None
        if first is not None and not first.woken.done():
            first.woken.set_result(None)

    def _listen(self) -> None:
        looked: dict[str, float] = {}
        while True:
            with self._lock:
                queues = list(self._lines)
                if not queues:
                    self._listener = None
                    return
            try:
                told = self._open_store().wait_for_room(queues, PROBE_S)
            except StoreUnavailable:
                time.sleep(PROBE_S)
                told = None
            now = time.monotonic()
            due = [told] if told else []
            # Lost words, changed policies and modes: the first of each line looks by itself now and then.
            due += [queue for queue in queues if queue != told and now - looked.get(queue, 0) > PROBE_S]
            looked.update(dict.fromkeys(due, now))
            for queue in due:
                with contextlib.suppress(RuntimeError):  # the loop has ended, and with it everyone who waits
                    assert self._loop is not None
                    self._loop.call_soon_threadsafe(self.wake, queue)


class Patience:
    def __init__(self, application: Application, bell: RoomBell, teller: Teller | None = None) -> None:
        self.application = application
        self.bell = bell
        self.teller = teller

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope.get("method") != "POST" or scope.get("path") != PATH:
            await self.application(scope, receive, send)
            return
        headers = _without(scope["headers"], WAITED_HEADER)
        scope = {**scope, "headers": headers}
        prefer = b",".join(value for name, value in headers if name.lower() == b"prefer").decode("latin1")
        wanted = wait_preferred(prefer)
        body = await receive()
        answer: _Answer | None = None
        if wanted is None:
            answer = await self._ask(scope, body)
        else:
            answer = await self._ask_until_room(scope, body, receive, wanted)
        if answer is not None:
            await send({**answer.start, "headers": _without(answer.start["headers"], ROOM_HEADER)})
            for message in answer.body:
                await send(message)

    async def _ask(self, scope: MutableMapping[str, Any], body: Message) -> _Answer:
        answer = _Answer()

        async def receive() -> Message:
            return body

        async def keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.start = message
            else:
                answer.body.append(message)

        await self.application(scope, receive, keep)
        return answer

    async def _ask_until_room(
        self, scope: MutableMapping[str, Any], body: Message, receive: Receive, wanted: int
    ) -> _Answer | None:
        """The last answer; None where the client has gone meanwhile."""
        since = time.monotonic()
        answer = await self._ask(scope, body)
        told = answer.header(ROOM_HEADER)
        if told is not None and not self.bell.is_full:
            self.bell.waiting += 1
            gone = asyncio.ensure_future(_until_gone(receive))
            queue = told.rpartition(";")[0]
            if self.teller:
                self.teller.wake()
            try:
                with self.teller.producer.blocked(queue) if self.teller else nullcontext():
                    while told is not None:
                        queue, _, block_s = told.rpartition(";")
                        left = since + min(wanted, float(block_s), LONGEST_S) - time.monotonic()
                        if left <= 0:
                            break
                        if not await _unless(gone, self.bell.wait(queue, since=since, timeout_s=left)):
                            break
                        waited = str(round((time.monotonic() - since) * 1000)).encode()
                        told_so = (WAITED_HEADER.lower().encode(), waited)
                        again = {**scope, "headers": [*scope["headers"], told_so]}
                        answer = await self._ask(again, body)
                        told = answer.header(ROOM_HEADER)
                        if answer.start["status"] == 202:
                            self.bell.wake(queue)  # there may be room for the next one too
                if gone.done():
                    return None
            finally:
                self.bell.waiting -= 1
                gone.cancel()
        elif told is not None or answer.start["status"] != 202:
            return answer  # the preference was not kept, and RFC 7240 lets one say so by silence
        applied = (b"preference-applied", f"wait={wanted}".encode())
        answer.start = {**answer.start, "headers": [*answer.start["headers"], applied]}
        return answer


def _without(headers: Iterable[tuple[bytes, bytes]], name: str) -> list[tuple[bytes, bytes]]:
    return [pair for pair in headers if pair[0].lower() != name.lower().encode()]


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _unless(gone: asyncio.Future[None], waiting: Coroutine[Any, Any, bool]) -> bool:
    """What the wait says; False as soon as the client has gone."""
    task = asyncio.ensure_future(waiting)
    both: set[asyncio.Future[Any]] = {task, gone}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if gone.done():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return False
    return task.result()

"""Who may watch live, and how does a slow reader keep nobody waiting?"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import suppress
from typing import Any, Final

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.db import close_old_connections
from django.http import parse_cookie
from django.utils.crypto import constant_time_compare

from workers.exceptions import StoreUnavailable

from ..access.caller import Caller, bearer_of, caller_of_key, caller_of_user
from ..access.origin import is_own_origin
from ..queries.engine import open_gate
from .relay import as_message, relay

log = logging.getLogger(__name__)

CHECK_RIGHTS_S: Final = 10.0  # at most
SHARED_S: Final = 1.0  # for so long one look at a session or a key serves all its readers
SLOWEST_SEND_S: Final = 10.0  # a reader that takes longer for one frame is let go
UNAUTHORIZED: Final = 4401
FORBIDDEN: Final = 4403
TOO_SLOW: Final = 4408


#: When who was looked at last, and what is or will be found.
_looks: dict[tuple[object, str, str, str], tuple[float, asyncio.Future[Caller | None]]] = {}


class LiveConsumer(AsyncWebsocketConsumer):
    """The newest frame at once, then each as it comes. Frames that a slow reader missed are skipped."""

    channel_layer_alias = "none"  # the relay holds the process's one subscription

    async def connect(self) -> None:
        self.newest: str | None = None
        self.wake = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        headers = _headers(self.scope)
        origin = headers.get("origin")
        if origin and not is_own_origin(origin, headers.get("host", "")):
            await self._refuse(FORBIDDEN)
            return
        caller = await self._find_caller(headers)
        if caller is None:
            await self._refuse(UNAUTHORIZED)
            return
        if "read" not in caller.scopes:
            await self._refuse(FORBIDDEN)
            return
        await self.accept()
        self.headers = headers
        self.take(await self._first_frame())
        relay().add(self)
        self.tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._watch_rights())]

    async def disconnect(self, code: int) -> None:
        relay().remove(self)
        for task in self.tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is asked over this socket."""

    def take(self, text: str | None) -> None:
        """Called by the relay: never waits; what was not sent yet is replaced."""
        if text is not None:
            self.newest = as_message(text)
            self.wake.set()

    async def _write(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            text, self.newest = self.newest, None
            if text is None:
                continue
            try:
                await asyncio.wait_for(self.send(text_data=text), SLOWEST_SEND_S)
            except TimeoutError:
                await self._end(TOO_SLOW)
                return
            except Exception:  # noqa: BLE001  each server has its own error for a reader that left
                relay().remove(self)
                return

    async def _watch_rights(self) -> None:
        """Who lost the right, or whose session ended, sees no further frame."""
        while True:
            # Spread: readers that came together, as after a restart, would all be looked at in one moment.
            await asyncio.sleep(CHECK_RIGHTS_S * random.uniform(0.5, 1.0))
            try:
                caller = await self._find_caller_again(self.headers)
            except Exception as fault:  # noqa: BLE001  a database that is away ends no stream
                log.warning("rights could not be checked: %s", fault)
                continue
            if caller is None or "read" not in caller.scopes:
                await self._end(UNAUTHORIZED if caller is None else FORBIDDEN)
                return

    async def _end(self, code: int) -> None:
        relay().remove(self)
        with suppress(Exception):
            await self.close(code=code)

    async def _refuse(self, code: int) -> None:
        # Accepted first: a close code of our own reaches the page only over an open socket.
        await self.accept()
        await self.close(code=code)

    async def _find_caller(self, headers: dict[str, str]) -> Caller | None:
        return await database_sync_to_async(_caller)(headers, _address(self.scope))

    async def _find_caller_again(self, headers: dict[str, str]) -> Caller | None:
        """As a moment ago for another reader of the same session or key: a thousand looks are one."""
        now = time.monotonic()
        loop = asyncio.get_running_loop()
        who = (loop, headers.get("authorization", ""), headers.get("cookie", ""), _address(self.scope))
        for known in [known for known, (at, _) in _looks.items() if now - at > SHARED_S]:
            del _looks[known]
        if who not in _looks:
            _looks[who] = (now, asyncio.ensure_future(self._find_caller(headers)))
        return await asyncio.shield(_looks[who][1])

    async def _first_frame(self) -> str | None:
        try:
            return await asyncio.to_thread(open_gate().read_frame)
        except StoreUnavailable:
            return None


def _headers(scope: dict[str, Any]) -> dict[str, str]:
    return {name.decode("latin1"): value.decode("latin1") for name, value in scope.get("headers", ())}


def _address(scope: dict[str, Any]) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _caller(headers: dict[str, str], address: str) -> Caller | None:
    close_old_connections()
    header = headers.get("authorization", "")
    if header:
        secret = bearer_of(header)
        return caller_of_key(secret, address=address) if secret else None
    return _caller_of_cookie(headers.get("cookie", ""), address)


def _caller_of_cookie(cookie: str, address: str) -> Caller | None:
    """The session read anew each time: a copy from the connect would outlive a logout."""
    key = parse_cookie(cookie).get(settings.SESSION_COOKIE_NAME)
    if not key:
        return None
    session = SessionStore(session_key=key)
    if SESSION_KEY not in session or session.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return None
    model = get_user_model()
    user = model.objects.filter(pk=model._meta.pk.to_python(session[SESSION_KEY]), is_active=True).first()
    if user is None or not constant_time_compare(
        session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()
    ):
        return None  # a changed password ends its sessions
    return caller_of_user(user, address=address)

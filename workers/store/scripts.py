"""How does a script get from its file to Redis, and its answer back?"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import redis
from redis.exceptions import BusyLoadingError, NoScriptError

from .faults import raise_unavailable

LUA_DIR = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^-- @include (\w+)$", re.MULTILINE)

_LAYER = re.compile(r"^-- @layer$", re.MULTILINE)


@functools.cache
def source(name: str) -> str:
    """Text of a script with its includes put in place, and each ``-- @layer`` opened as a function.

    A function that captures a local of its own block makes Lua walk the list of all locals captured so far
    (``luaF_findupval``), which made the sixty functions of the base a third of a settlement's cost. What
    stands in an outer block is taken from there at once.
    """
    text = (LUA_DIR / f"{name}.lua").read_text()
    text = _INCLUDE.sub(lambda m: (LUA_DIR / "includes" / f"{m.group(1)}.lua").read_text(), text)
    text, layers = _LAYER.subn("return (function()", text)
    return text + "end)()\n" * layers


@functools.cache
def sha(name: str) -> str:
    """SHA-1 by which Redis knows the script (EVALSHA)."""
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()


def unpack(reply: bytes) -> Any:
    """A script's msgpack reply as Python values. Text that is not UTF-8 survives as surrogates."""
    return msgpack.unpackb(reply, raw=False, strict_map_key=False, unicode_errors="surrogateescape")


def unpack_raw(reply: bytes) -> Any:
    """A script's reply with every string left as bytes, for replies that hold payloads."""
    return msgpack.unpackb(reply, raw=True, strict_map_key=False)


class Line:
    """One connection kept for scripts, a round trip without what redis-py does around a command.

    Asked from two threads at once, the second takes a connection from the pool for its call. After a
    timeout the connection is dropped, so that a late reply is never read as the next one's.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._pool = client.connection_pool
        self._connection: Any = None
        self._pid = 0
        self._lock = threading.Lock()

    def call(self, *command: Any, then: Callable[[Any], tuple[Any, ...] | None] | None = None) -> Any:
        """Sends a command and gives its reply.

        ``then`` may name, by the reply, a second command for the same connection (WAIT is about what this
        connection wrote); the reply is then a pair, whose second part is an error where that one failed.

        A connection that turns out to be dead (a restarted server) is made anew once: every script is
        idempotent by operation id or epoch. A timeout is not tried again, the command may still run.

        Raises:
            redis.RedisError: as redis-py raises it.
        """
        if not self._lock.acquire(blocking=False):
            spare = self._pool.get_connection()
            try:
                return _ask(spare, command, then)
            finally:
                self._pool.release(spare)
        try:
            if self._pid != os.getpid():
                # A forked child leaves its parent's connection alone.
                self._connection, self._pid = None, os.getpid()
            fresh = self._connection is None
            try:
                return _ask(self._open(), command, then)
            except (redis.ResponseError, BusyLoadingError):
                raise  # an answer: trying again at once would get the same
            except redis.ConnectionError:
                self._drop()
                if fresh:
                    raise
                return _ask(self._open(), command, then)
            except BaseException:
                self._drop()
                raise
        finally:
            self._lock.release()

    def _open(self) -> Any:
        if self._connection is None:
            self._connection = self._pool.get_connection()
        return self._connection

    def _drop(self) -> None:
        """Back to the pool, which asks the sentinels anew; by itself it would go on to the old primary."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
            self._pool.release(connection)


def _ask(
    connection: Any, command: tuple[Any, ...], then: Callable[[Any], tuple[Any, ...] | None] | None
) -> Any:
    try:
        connection.send_command(*command)
        return _follow(connection, connection.read_response(), then)
    except (redis.ResponseError, BusyLoadingError):
        raise
    except (ValueError, AttributeError) as exc:
        # Another thread closed it meanwhile: redis-py reads on in a buffer that is closed, or gone.
        connection.disconnect()
        if isinstance(exc, UnicodeError):
            raise
        raise redis.ConnectionError("the connection was closed in the middle of a reply") from exc
    except BaseException:
        # Whatever broke in (a time limit's signal too): the reply must not be read as the next one's.
        connection.disconnect()
        raise


def _follow(connection: Any, reply: Any, then: Callable[[Any], tuple[Any, ...] | None] | None) -> Any:
    """What the first command did stands, whatever becomes of the second."""
    if then is None:
        return reply
    command = then(reply)
    if command is None:
        return reply, None
    try:
        connection.send_command(*command)
        return reply, connection.read_response()
    except (redis.RedisError, OSError) as exc:
        if not isinstance(exc, redis.ResponseError):
            connection.disconnect()
        return reply, exc


def run_then(
    line: Line, name: str, root: str, *args: Any, then: Callable[[bytes], tuple[Any, ...] | None]
) -> tuple[bytes, Any]:
    """As ``run``; with the reply of the command that ``then`` names by the script's, None, or its error.

    Raises:
        StoreUnavailable: the script did not run to its end.
    """
    try:
        try:
            reply, second = line.call("EVALSHA", sha(name), 1, root, *args, then=then)
        except NoScriptError:
            reply, second = line.call("EVAL", source(name), 1, root, *args, then=then)
    except (redis.RedisError, OSError) as exc:
        raise_unavailable(exc)
    return bytes(reply), second


def run(line: Line, name: str, root: str, *args: Any) -> bytes:
    """Runs a script with the gate's root as its one key and gives its raw reply.

    Loads the script when the server does not know it (a restart, SCRIPT FLUSH, a failover).

    Raises:
        StoreUnavailable: Redis is out of reach, loading, read-only, full or refuses the password.
    """
    try:
        try:
            reply = line.call("EVALSHA", sha(name), 1, root, *args)
        except NoScriptError:
            reply = line.call("EVAL", source(name), 1, root, *args)
    except (redis.RedisError, OSError) as exc:
        raise_unavailable(exc)
    return bytes(reply)

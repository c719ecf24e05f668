"""How does a script get from its file to Redis, and its answer back?"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path
from typing import Any

import msgpack
import redis
from redis.exceptions import NoScriptError

from .faults import raise_unavailable

LUA_DIR = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^-- @include (\w+)$", re.MULTILINE)


@functools.cache
def source(name: str) -> str:
    """Text of a script with its includes put in place."""
    text = (LUA_DIR / f"{name}.lua").read_text()
    return _INCLUDE.sub(lambda m: (LUA_DIR / "includes" / f"{m.group(1)}.lua").read_text(), text)


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


def run(client: redis.Redis, name: str, root: str, *args: Any) -> bytes:
    """Runs a script with the gate's root as its one key and gives its raw reply.

    Loads the script when the server does not know it (a restart, SCRIPT FLUSH, a failover).

    Raises:
        StoreUnavailable: Redis is out of reach, loading, read-only, full or refuses the password.
    """
    try:
        try:
            reply = client.execute_command("EVALSHA", sha(name), 1, root, *args)
        except NoScriptError:
            reply = client.execute_command("EVAL", source(name), 1, root, *args)
    except (redis.RedisError, OSError) as exc:
        raise_unavailable(exc)
    return bytes(reply)

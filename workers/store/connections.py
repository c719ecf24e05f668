"""How does a process reach the gate's Redis?"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

#: Seconds a command may take. Below the two seconds within which the door answers.
TIMEOUT_S = 1.5

#: Seconds in which a sentinel must take a connection.
SENTINEL_CONNECT_S = 0.3
DEFAULT_SENTINEL_PORT = 26379
SENTINEL_SCHEMES = ("sluicegate+sentinel", "sentinel", "redis+sentinel")

#: No greetings: each would be a round trip of its own on connecting, with a time-out of its own, and a server
#: that is slow to answer would take the door's two seconds with them.
PLAIN: dict[str, Any] = {"protocol": 2, "lib_name": None, "lib_version": None}
if find_spec("redis.driver_info") is not None:  # since redis-py 8, which warns of the older names
    PLAIN = {"protocol": 2, "driver_info": None}

_SCHEMES = {
    "sluicegate": "redis",
    "sluicegates": "rediss",
    "sluicegate+socket": "unix",
    "redis+socket": "unix",
    "socket": "unix",
}


def redis_url(url: str) -> str:
    """The URL as redis-py reads it: redis://, rediss:// or unix://.

    Raises:
        ValueError: the scheme is none of those that Sluicegate knows.
    """
    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    if scheme not in ("redis", "rediss", "unix"):
        raise ValueError(
            f"cannot reach Redis by {parts.scheme}://; use redis://, rediss:// or unix:// (or sluicegate://, "
            "sluicegates://, sluicegate+socket://, sluicegate+sentinel://)"
        )
    query = [("db" if key == "virtual_host" else key, value) for key, value in parse_qsl(parts.query)]
    rest = f"?{urlencode(query)}" if query else ""
    return f"{scheme}://{parts.netloc}{parts.path}{rest}"


def open_client(url: str, *, timeout_s: float = TIMEOUT_S, **options: Any) -> redis.Redis:
    """A client that neither retries nor waits longer than ``timeout_s``.

    redis-py 8 retries ten times by default, timeouts included: a settle could run twice, and the door
    would not answer in time. Every script is idempotent, and who calls decides whether to try again.

    ``sluicegate+sentinel://HOST:PORT,HOST:PORT/MASTER?db=0`` asks those sentinels for the master.
    """
    settings: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        **PLAIN,
        **options,
    }
    if urlsplit(url).scheme in SENTINEL_SCHEMES:
        watched = read_sentinel_url(url)
        client: redis.Redis = open_sentinel(watched, settings).master_for(
            watched.master,
            db=watched.database,
            username=watched.username,
            password=watched.password,
            **settings,
        )
        return client
    client = redis.Redis.from_url(redis_url(url), **settings)
    return client


@dataclass(frozen=True, slots=True)
class Watched:
    """A server that sentinels watch: where they are, and by which name they know it."""

    nodes: tuple[tuple[str, int], ...]
    master: str
    database: int = 0
    username: str | None = None
    password: str | None = None
    sentinel_password: str | None = None


def read_sentinel_url(url: str) -> Watched:
    """``sluicegate+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/MASTER?db=0``.

    The name of the master defaults to ``mymaster``, a port to 26379. User and password are the server's; that
    of the sentinels, where they ask for one, is ``&sentinel_password=``.

    Raises:
        ValueError: it names no sentinel, or a port or database that is no number.
    """
    parts = urlsplit(url)
    userinfo, _, hosts = parts.netloc.rpartition("@")
    nodes = []
    for node in filter(None, hosts.split(",")):
        host, colon, port = node.rpartition(":") if not node.endswith("]") else (node, "", "")
        nodes.append(
            ((host if colon else node).strip("[]"), int(port) if colon and port else DEFAULT_SENTINEL_PORT)
        )
    if not nodes:
        raise ValueError("names no sentinel; give sluicegate+sentinel://HOST:26379,HOST:26379/MASTER")
    user, _, password = userinfo.partition(":")
    query = dict(parse_qsl(parts.query))
    return Watched(
        tuple(nodes),
        unquote(parts.path.strip("/")) or "mymaster",
        int(query.get("db") or query.get("virtual_host") or 0),
        unquote(user) or None,
        unquote(password) or None,
        query.get("sentinel_password") or None,
    )


def open_sentinel(watched: Watched, settings: dict[str, Any]) -> Sentinel:
    """``settings`` are the connection's own; the sentinels are asked with less patience."""
    kwargs = sentinel_settings(watched)
    kwargs["socket_timeout"] = settings.get("socket_timeout") or TIMEOUT_S
    return Sentinel(list(watched.nodes), sentinel_kwargs=kwargs)


def sentinel_settings(watched: Watched, *, asynchronous: bool = False) -> dict[str, Any]:
    """How to ask a sentinel: once, and not for long.

    redis-py's default would ask a dead one eleven times, with pauses, before the one that lives.
    """
    retry: Any = AsyncRetry(NoBackoff(), 0) if asynchronous else Retry(NoBackoff(), 0)
    settings = {
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": SENTINEL_CONNECT_S,
        "retry": retry,
    }
    return {**settings, "password": watched.sentinel_password} if watched.sentinel_password else settings

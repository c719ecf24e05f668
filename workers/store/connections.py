"""How does a process reach the gate's Redis?"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

#: Seconds a command may take. Below the two seconds within which the door answers.
TIMEOUT_S = 1.5

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
        **options,
    }
    parts = urlsplit(url)
    if parts.scheme in ("sluicegate+sentinel", "sentinel", "redis+sentinel"):
        userinfo, _, hosts = parts.netloc.rpartition("@")
        nodes = []
        for node in hosts.split(","):
            host, _, port = node.partition(":")
            nodes.append((host, int(port or 26379)))
        query = dict(parse_qsl(parts.query))
        password = userinfo.partition(":")[2] or None
        sentinel = Sentinel(nodes, socket_timeout=timeout_s, retry=Retry(NoBackoff(), 0))
        client: redis.Redis = sentinel.master_for(
            parts.path.strip("/") or "mymaster", db=int(query.get("db", 0)), password=password, **settings
        )
        return client
    client = redis.Redis.from_url(redis_url(url), **settings)
    return client

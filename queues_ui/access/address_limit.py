"""Does one address ask too often? Found out before anything is read, looked up or worked on.

A bucket for each address, in this process: `rate` requests a second, `burst` at once. The table is bounded;
where it is full, who was silent longest is forgotten and begins with a full bucket.
"""

from __future__ import annotations

import ipaddress
import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final

from .body_limit import Application, Receive, Send

MOST_ADDRESSES: Final = 10_000
IPV6_PREFIX: Final = 64  # one line's worth of addresses, which its owner changes at will
NEVER_BOUND: Final = ("/healthz",)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Buckets:
    """Each address's theoretical arrival time (GCRA, ITU-T I.371); `rate` 0 lets everything through."""

    def __init__(self, *, rate: float, burst: int, most: int = MOST_ADDRESSES) -> None:
        self.rate = rate
        self.burst = max(1, burst)
        self._most = most
        self._due: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._due)

    def wait_s(self, address: str, now_s: float) -> float:
        """0 where the request is let through and counted; else the seconds until one would be."""
        if self.rate <= 0:
            return 0.0
        step = 1 / self.rate
        due = max(self._due.get(address, now_s), now_s) + step
        over = due - now_s - self.burst * step
        if over > 1e-9:
            return over
        self._due[address] = due
        self._due.move_to_end(address)
        if len(self._due) > self._most:
            self._due.popitem(last=False)
        return 0.0


def real_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """The client's address: the last one of X-Forwarded-For that no trusted proxy wrote for itself.

    What stands further left was sent along by the client, who may write there what it likes.
    """
    address = peer
    for part in reversed([part.strip() for part in forwarded_for.split(",") if part.strip()]):
        if not is_within(address, trusted):
            break
        if _parse(part) is None:
            break
        address = part
    return address


def is_within(address: str, networks: Sequence[Network]) -> bool:
    parsed = _parse(address)
    return parsed is not None and any(
        parsed in network for network in networks if network.version == parsed.version
    )


def bucket_of(address: str) -> str:
    parsed = _parse(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))
    return str(parsed or address)


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return None
    mapped = getattr(parsed, "ipv4_mapped", None)
    return mapped or parsed


class AddressLimit:
    """The outermost part of the door. It also tells the rest of it the client's own address."""

    def __init__(
        self,
        application: Application,
        *,
        rate: float,
        burst: int,
        trusted: Sequence[Network] = (),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.application = application
        self.buckets = Buckets(rate=rate, burst=burst)
        self.trusted = trusted
        self.now_s = now_s

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if scope["type"] not in ("http", "websocket") or not client:
            await self.application(scope, receive, send)  # a UNIX socket has no address
            return
        address = str(client[0])
        if self.trusted:
            address = real_address(address, _forwarded_for(scope), self.trusted)
            scope = {**scope, "client": (address, client[1])}
        if scope["path"] not in NEVER_BOUND:
            wait_s = self.buckets.wait_s(bucket_of(address), self.now_s())
            if wait_s > 0:
                await (self._refuse if scope["type"] == "http" else self._close)(send, wait_s)
                return
        await self.application(scope, receive, send)

    async def _refuse(self, send: Send, wait_s: float) -> None:
        seconds = max(1, math.ceil(wait_s))
        document = {
            "type": "urn:sluicegate:problem:rate",
            "title": "Too Many Requests",
            "status": 429,
            "reason": "rate",
            "detail": "This address asks more often than the door lets it. Nothing was accepted.",
            "retry_after_s": seconds,
        }
        body = json.dumps(document).encode()
        window = max(1, round(self.buckets.burst / self.buckets.rate))
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            (b"retry-after", str(seconds).encode()),
            (b"ratelimit-policy", f'"address";q={self.buckets.burst};qu="requests";w={window}'.encode()),
            (b"ratelimit", f'"address";r=0;t={seconds}'.encode()),
        ]
        await send({"type": "http.response.start", "status": 429, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _close(self, send: Send, wait_s: float) -> None:
        await send({"type": "websocket.close", "code": 4429})


def _forwarded_for(scope: MutableMapping[str, Any]) -> str:
    values = [
        value.decode("latin1") for name, value in scope.get("headers", ()) if name == b"x-forwarded-for"
    ]
    return ",".join(values)

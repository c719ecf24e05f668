"""May a job call this address? A URL that a tenant sends must not reach into the operator's network."""

from __future__ import annotations

import fnmatch
import ipaddress
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from .places import sink_url

#: (host, port) to the addresses that it has.
Resolver = Callable[[str, int], Sequence[str]]

_PORTS = {"http": 80, "https": 443}


class TargetRefused(ValueError):
    """The address is not one that a job may call."""


@dataclass(frozen=True, slots=True)
class Target:
    """A checked URL: ``address`` is what to connect to; a second look-up could answer differently."""

    scheme: str
    host: str
    port: int
    address: str
    path: str

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def connect_url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def resolve(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        raise TargetRefused(f"{host} cannot be resolved") from exc
    return [str(info[4][0]) for info in found]


def check_target(url: str, *, allowed: Sequence[str] | None = None, resolver: Resolver = resolve) -> Target:
    """The URL, resolved and checked.

    ``allowed`` are globs of host names, else those of ``SLUICEGATE_WEBHOOK_HOSTS``; none: every public host.
    Every address of the host must be public; the one exception is the demonstration's own sink, by its
    exact scheme, host and port.

    Raises:
        TargetRefused: with what is wrong.
    """
    scheme, host, port, path = _split(url)
    if _is_sink(scheme, host, port):
        return Target(scheme, host, port, host, path)
    globs = _hosts_from_environment() if allowed is None else allowed
    if globs and not any(fnmatch.fnmatchcase(host, glob.lower()) for glob in globs):
        raise TargetRefused(f"{host} is not among the allowed hosts")
    addresses = resolver(host, port)
    if not addresses:
        raise TargetRefused(f"{host} has no address")
    for address in addresses:
        if not is_public(address):
            raise TargetRefused(f"{host} is not a public address")
    return Target(scheme, host, port, addresses[0], path)


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, however it is written."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:  # an interface name (fe80::1%eth0) or no address at all
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = _embedded(ip)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not ip.is_multicast


def _embedded(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a mapped, 6to4, Teredo or NAT64 address leads to."""
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if ip in ipaddress.ip_network("64:ff9b::/96") or ip in ipaddress.ip_network("::/96"):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return None


def _split(url: str) -> tuple[str, str, int, str]:
    if not isinstance(url, str) or any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise TargetRefused("the URL holds a space or a control character")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise TargetRefused("the URL cannot be read") from exc
    if parts.scheme not in _PORTS:
        raise TargetRefused("only http and https are called")
    if parts.username is not None or parts.password is not None or "\\" in url:
        raise TargetRefused("the URL holds a user name or a backslash")
    host = (parts.hostname or "").rstrip(".").lower()
    if not host:
        raise TargetRefused("the URL names no host")
    if port == 0:
        raise TargetRefused("port 0 cannot be called")
    path = parts.path or "/"
    return parts.scheme, host, port or _PORTS[parts.scheme], f"{path}?{parts.query}" if parts.query else path


def _is_sink(scheme: str, host: str, port: int) -> bool:
    own = sink_url()
    if own is None:
        return False
    parts = urlsplit(own)
    return host == "127.0.0.1" and (scheme, host, port) == (parts.scheme, parts.hostname, parts.port)


def _hosts_from_environment() -> list[str]:
    text = os.environ.get("SLUICEGATE_WEBHOOK_HOSTS", "")
    return [glob.strip() for glob in text.split(",") if glob.strip()]

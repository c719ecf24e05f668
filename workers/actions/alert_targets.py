"""May an alert be sent there? An operator's address must not reach into the machine's own network."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, Final
from urllib.parse import urlsplit

import apprise

from .actor import Actor, NotPossible

MOST: Final = 10
WEB: Final = ("http", "https", "json", "jsons", "xml", "xmls", "form", "forms")


def check_targets(actor: Actor, targets: Any, *, allowed_hosts: list[str]) -> list[str]:
    """Targets as they are kept. Where they lead to a private network an admin, or the list, must say so."""
    if not isinstance(targets, list) or len(targets) > MOST:
        raise NotPossible("invalid", f"targets must be a list of at most {MOST} addresses.", field="targets")
    return [_checked(actor, target, f"targets[{i}]", allowed_hosts) for i, target in enumerate(targets)]


def redact(target: str) -> str:
    """An address without what opens it: user, password, tokens in path and query."""
    parts = urlsplit(target)
    host = parts.hostname or ""
    port = f":{parts.port}" if _port(parts.netloc) else ""
    return f"{parts.scheme}://{host}{port}/…"[:300]


def _port(netloc: str) -> bool:
    return netloc.rpartition(":")[2].isdigit()


def _checked(actor: Actor, target: Any, field: str, allowed_hosts: list[str]) -> str:
    if not isinstance(target, str) or len(target) > 2000:
        raise NotPossible("invalid", "A target is an address of at most 2000 characters.", field=field)
    url = _as_apprise(target)
    try:
        parts = urlsplit(url)
        scheme, host, _ = parts.scheme, parts.hostname or "", parts.port
        is_address = scheme != "file" and apprise.Apprise.instantiate(url, suppress_exceptions=True)
    except ValueError:  # half an address in brackets, a port that is none
        is_address = None
    if not is_address:
        raise NotPossible("invalid", "That is no address that a message can be sent to.", field=field)
    if scheme in WEB and not actor.may("admin") and host not in allowed_hosts and not _is_public(host):
        raise NotPossible(
            "invalid",
            f"{host} is not a public address: an admin may set it, or SLUICEGATE_ALERT_HOSTS may name it.",
            field=field,
        )
    return url


def _as_apprise(target: str) -> str:
    """A plain web address is a webhook that gets JSON."""
    scheme, separator, rest = target.partition("://")
    if separator and scheme in ("http", "https"):
        return f"json{'s' if scheme == 'https' else ''}://{rest}"
    return target


def _is_public(host: str) -> bool:
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(address).is_global for address in found)

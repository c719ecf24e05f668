"""Who is asking, with which rights?"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from django.db import Error
from django.http import HttpRequest
from django.utils import timezone

from workers.actions.actor import ROLES, Actor
from workers.actions.create_key import digest
from workers.models import ApiKey

from .desk import DatabaseAway, desk

log = logging.getLogger(__name__)

ROLE_SCOPES: Final = {
    "viewer": frozenset({"read"}),
    "operator": frozenset({"submit", "read", "operate"}),
    "admin": frozenset({"submit", "read", "operate", "admin"}),
}
KNOWN_FOR_S: Final = 1.0
KEPT_WHILE_AWAY_S: Final = 900.0  # how long a key is taken at its last word while the database is away
MOST_KNOWN: Final = 1000
NOTE_USE_AFTER: Final = timedelta(minutes=5)  # a write a request would cost more than it tells


@dataclass(frozen=True, slots=True)
class Caller:
    """`tenant` None may read every tenant's operations."""

    name: str
    role: str
    scopes: frozenset[str]
    via: str
    address: str = ""
    tenant: str | None = None
    submits_as: str = "default"
    tasks: tuple[str, ...] = field(default=())
    queues: tuple[str, ...] = field(default=())
    key_id: int | None = None

    @property
    def actor(self) -> Actor:
        return Actor(self.name, self.role, self.via, self.address, self.tenant)

    def may_submit_task(self, task: str) -> bool:
        return not self.tasks or any(fnmatchcase(task, pattern) for pattern in self.tasks)

    def may_submit_to(self, queue: str) -> bool:
        return not self.queues or any(fnmatchcase(queue, pattern) for pattern in self.queues)

    def sees(self, tenant: str) -> bool:
        return self.tenant is None or self.tenant == tenant


_known_keys: dict[str, tuple[float, Caller | None]] = {}


def role_of(user: Any) -> str:
    """The highest role among a user's groups; empty for nobody."""
    if not user.is_active:
        return ""
    if user.is_superuser:
        return "admin"
    names = set(user.groups.values_list("name", flat=True))
    return next((role for role in reversed(ROLES) if role in names), "")


def caller_of_user(user: Any, *, address: str = "") -> Caller | None:
    if not user.is_authenticated:
        return None
    role = role_of(user)
    return Caller(user.get_username(), role, ROLE_SCOPES.get(role, frozenset()), "page", address)


def caller_of_key(secret: str, *, address: str = "") -> Caller | None:
    """Looked up at most once a second a key: a lookup costs as much as the rest of a submit."""
    mark = digest(secret)
    at, caller = _known_keys.get(mark, (0.0, None))
    if caller is None or time.monotonic() - at > KNOWN_FOR_S:
        try:
            row = desk.ask(lambda: ApiKey.objects.filter(sha256=mark, revoked_at__isnull=True).first())
        except DatabaseAway:
            if caller is None or time.monotonic() - at > KEPT_WHILE_AWAY_S:
                raise
            return replace(caller, address=address)
        if row is None:
            _known_keys.pop(mark, None)
            return None
        desk.hand_over(lambda: note_use(row))
        caller = caller_of_key_row(row)
        if len(_known_keys) >= MOST_KNOWN:
            _known_keys.clear()
        _known_keys[mark] = (time.monotonic(), caller)
    return replace(caller, address=address)


def forget_keys() -> None:
    """After a revocation here; other processes forget within KNOWN_FOR_S."""
    _known_keys.clear()


def caller_of_key_row(row: ApiKey, *, address: str = "") -> Caller:
    scopes = frozenset(row.scopes)
    role = (
        "admin"
        if "admin" in scopes
        else "operator"
        if "operate" in scopes
        else "viewer"
        if "read" in scopes
        else ""
    )
    if role == "admin":
        scopes = ROLE_SCOPES["admin"]
    return Caller(
        name=f"key {row.prefix}",
        role=role,
        scopes=scopes,
        via="api",
        address=address,
        tenant=None if role == "admin" else row.tenant,
        submits_as=row.tenant,
        tasks=tuple(row.tasks),
        queues=tuple(row.queues),
        key_id=row.pk,
    )


def note_use(row: ApiKey) -> None:
    """At most one write a key and five minutes; that it fails hinders nobody."""
    now = timezone.now()
    if row.last_used_at is not None and now - row.last_used_at < NOTE_USE_AFTER:
        return
    try:
        ApiKey.objects.filter(pk=row.pk).update(last_used_at=now)
    except Error as fault:
        log.warning("could not note the use of key %s: %s", row.prefix, fault)


def bearer_of(header: str) -> str | None:
    """The key in an Authorization header; None if it names none."""
    scheme, _, secret = header.partition(" ")
    secret = secret.strip()
    return secret if scheme.lower() == "bearer" and secret else None


def address_of(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR") or "")

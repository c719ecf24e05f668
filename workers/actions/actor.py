"""Who acts, with which right, and through which door?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

ROLES: Final = ("viewer", "operator", "admin")  # each may do what those before it may


@dataclass(frozen=True, slots=True)
class Actor:
    """`tenant` is set where the actor may touch only that tenant's operations."""

    name: str
    role: str
    via: str  # page, api, cli, monitor
    address: str = ""
    tenant: str | None = None

    def may(self, role: str) -> bool:
        return self.role in ROLES and ROLES.index(self.role) >= ROLES.index(role)


#: What the monitor finds or does by itself.
MONITOR: Final = Actor("monitor", "admin", "monitor")


@dataclass(frozen=True, slots=True)
class Result:
    """What an action left behind; `data` is what the answer shows."""

    verb: str
    target: str
    data: dict[str, Any]


class NotPermitted(Exception):
    """The actor's role does not allow the verb. It is in the journal by the time this is raised."""

    def __init__(self, actor: Actor, verb: str, needed: str) -> None:
        super().__init__(f"{verb} needs the role {needed}; {actor.name} is {actor.role or 'nobody'}")
        self.needed = needed


class NotPossible(Exception):
    """The request makes no sense or cannot be met: `field` is at fault where one is."""

    def __init__(self, reason: str, detail: str, *, field: str | None = None, status: int = 422) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.field = field
        self.status = status

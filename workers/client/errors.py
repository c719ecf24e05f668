"""What can the door say no with? One exception a fact, made from its problem document (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class DoorError(Exception):
    """Anything that kept a call from its answer. ``tries`` is how often it was made."""

    tries: int = 1
    #: Why no further try was made: attempts, budget, patience; None where trying again would not help.
    gave_up: str | None = None


class Unreachable(DoorError):
    """No answer came. Unless ``is_certain``, the call may have had its effect all the same."""

    def __init__(self, detail: str, *, is_certain: bool) -> None:
        super().__init__(detail)
        self.is_certain = is_certain


class WaitTimeout(DoorError):
    """The operation had not settled in time; it goes on."""


class ProblemError(DoorError):
    """The door answered with a problem; unknown parts of it are in ``document``."""

    def __init__(
        self, status: int, document: Mapping[str, Any], *, retry_after_s: float | None = None
    ) -> None:
        self.status = status
        self.document = dict(document)
        self.reason = _text(document, "reason") or f"http_{status}"
        self.detail = _text(document, "detail") or _text(document, "title") or f"HTTP {status}"
        self.field = _text(document, "field")
        self.queue = _text(document, "queue")
        self.retry_after_s = retry_after_s
        super().__init__(f"{status} {self.reason}: {self.detail}")


class Refused(ProblemError):
    """429: a bound or a limit is reached; nothing was stored.

    Where others wait in line (reason waiting_room) it has a ``ticket``, which the next try must bring along.
    """

    @property
    def ticket(self) -> str | None:
        return _text(self.document, "ticket")

    @property
    def position(self) -> int | None:
        value = self.document.get("position")
        return value if isinstance(value, int) else None


class Unavailable(ProblemError):
    """503: the gate is draining or cannot reach its store; nothing was stored."""


class InvalidRequest(ProblemError):
    """400 or 422, with the ``field`` at fault."""


class TooLarge(ProblemError):
    """413: more than the door or the queue takes at once."""


class NotAuthenticated(ProblemError):
    """401: no key, or not a valid one."""


class NotAllowed(ProblemError):
    """403: the key does not reach this far."""


class Unknown(ProblemError):
    """404: no such operation, or it is no longer kept."""


class Duplicate(ProblemError):
    """409: the idempotency key belongs to a different body."""


class AlreadySettled(ProblemError):
    """409 on cancel: it has ended already."""


_BY_STATUS: dict[int, type[ProblemError]] = {
    400: InvalidRequest,
    401: NotAuthenticated,
    403: NotAllowed,
    404: Unknown,
    409: Duplicate,
    413: TooLarge,
    422: InvalidRequest,
    429: Refused,
    503: Unavailable,
}


def problem_error(
    status: int, document: Mapping[str, Any], *, retry_after_s: float | None, is_cancel: bool = False
) -> ProblemError:
    kind = AlreadySettled if is_cancel and status == 409 else _BY_STATUS.get(status, ProblemError)
    return kind(status, document, retry_after_s=retry_after_s)


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) else None

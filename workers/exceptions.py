"""What can the gate raise, and what does each fact carry?"""

from __future__ import annotations

from typing import Any

from kombu.exceptions import OperationalError

from .states import REASON_STATUS


class AdmissionRefused(OperationalError):
    """A job was not accepted: nothing of it is stored.

    ``queue`` is the queue that refused, ``reason`` one of ``states.REASONS``, ``retry_after`` the
    modeled time in seconds after which an attempt is likely to succeed.

    It is a kombu ``OperationalError``, so that handlers written for a broker that is out of reach
    serve for one that is full. ``block_s`` is how long the queue lets a producer wait for room. Where the
    reason is waiting_room, ``ticket`` is the place in line: hand it back with the next attempt, in the header
    ``{"sluicegate": {"ticket": refused.ticket}}``; ``position`` 1 is called next.
    Picklable, since a prefork child hands it to its parent.
    """

    block_s: float = 0.0
    ticket: str | None = None
    position: int | None = None

    def __init__(self, queue: str, reason: str, retry_after: float, detail: str = "") -> None:
        self.queue = queue
        self.reason = reason
        self.retry_after = retry_after
        self.detail = detail
        said = f"{queue} refused the job: {reason}"
        if REASON_STATUS.get(reason, 503) in (429, 503):  # of the others no time helps
            said += f"; come back in {retry_after:.1f} s"
        super().__init__(f"{said} ({detail})" if detail else said)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.queue, self.reason, self.retry_after, self.detail), self.__dict__


class StoreUnavailable(OperationalError):
    """Redis cannot serve: ``reason`` is one of down, timeout, loading, readonly, full, auth, error."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"the gate's Redis is unavailable: {reason}{': ' if detail else ''}{detail}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.detail)


class DownstreamDropped(Exception):
    """Raised by a task whose downstream turned it away (429, 503) or did not answer in time.

    The limit of calls at a time to that downstream is cut; the job itself ends as it would with any other
    exception, so name it in ``autoretry_for`` to try again.
    """


class FieldError(ValueError):
    """What was given cannot hold: ``field`` is at fault, ``fix`` says what would do."""

    def __init__(self, field: str, message: str, fix: str = "") -> None:
        self.field = field
        self.message = message
        self.fix = fix
        super().__init__(f"{field}: {message}{'; ' if fix else ''}{fix}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.message, self.fix)


class OfferError(FieldError):
    """A message cannot be offered as it is."""


class HookMissing(RuntimeError):
    """A job was refused in an application that never called ``install(app)``.

    Without the hook nothing above the transport can report the refusal, so the publish fails
    rather than return an id for a job that is not stored.
    """

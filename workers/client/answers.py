"""What does the door answer with?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import ProblemError, problem_error

TERMINAL = frozenset({"succeeded", "failed", "expired", "cancelled", "superseded", "shed", "lost"})


@dataclass(frozen=True, slots=True)
class Accepted:
    """The job is in the gate's hands. ``status`` is ``shed`` where the queue's rule let it go at once."""

    operation_id: str
    status: str
    queue: str
    accepted_at_ms: int | None
    durability: str | None
    status_url: str | None
    tries: int = 1
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    operation_id: str
    status: str
    queue: str | None
    tenant: str | None
    phase: str | None
    attempts: int | None
    times: Mapping[str, int | None]
    result: Any
    error: Mapping[str, Any] | None
    document: Mapping[str, Any] = field(repr=False)

    @property
    def is_settled(self) -> bool:
        return self.status in TERMINAL


@dataclass(frozen=True, slots=True)
class BulkVerdict:
    """One of the two is set."""

    accepted: Accepted | None
    error: ProblemError | None


def parse_accepted(document: Mapping[str, Any], *, tries: int = 1, waited_s: float = 0.0) -> Accepted:
    return Accepted(
        operation_id=document["operation_id"],
        status=document["status"],
        queue=document["queue"],
        accepted_at_ms=document.get("accepted_at_ms"),
        durability=document.get("durability"),
        status_url=document.get("status_url"),
        tries=tries,
        waited_s=waited_s,
    )


def parse_job(document: Mapping[str, Any]) -> Job:
    return Job(
        operation_id=document["operation_id"],
        status=document["status"],
        queue=document.get("queue"),
        tenant=document.get("tenant"),
        phase=document.get("phase"),
        attempts=document.get("attempts"),
        times=document.get("times") or {},
        result=document.get("result"),
        error=document.get("error"),
        document=document,
    )


def parse_verdict(document: Mapping[str, Any]) -> BulkVerdict:
    status = document.get("status")
    if isinstance(status, int):
        seconds = document.get("retry_after_s")
        wait = float(seconds) if isinstance(seconds, (int, float)) else None
        return BulkVerdict(None, problem_error(status, document, retry_after_s=wait))
    return BulkVerdict(parse_accepted(document), None)

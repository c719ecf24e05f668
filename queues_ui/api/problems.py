"""How is a refusal told? As an RFC 9457 problem document with a reason a program can act on."""

import json
import math
from collections.abc import Collection
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse

from workers.actions.naming import tell_no_downstream, tell_no_queue

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        *,
        field: str | None = None,
        queue: str | None = None,
        retry_after_s: int | None = None,
        headers: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.detail = detail
        self.field = field
        self.queue = queue
        self.retry_after_s = retry_after_s
        self.headers = headers or {}
        self.extra = extra or {}

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "type": f"urn:sluicegate:problem:{self.reason}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "reason": self.reason,
            "detail": self.detail,
        }
        for name in ("field", "queue", "retry_after_s"):
            value = getattr(self, name)
            if value is not None:
                document[name] = value
        return {**document, **self.extra}


def unknown_queue(queue: str, known: Collection[str], *, status: int = 404, field: str = "queue") -> Problem:
    return Problem(status, "unknown_queue", tell_no_queue(queue, known), field=field)


def unknown_downstream(name: str, known: Collection[str], *, status: int = 404, field: str) -> Problem:
    return Problem(status, "unknown_downstream", tell_no_downstream(name, known), field=field)


def problem_response(problem: Problem) -> HttpResponse:
    response = HttpResponse(
        json.dumps(problem.document(), ensure_ascii=False), status=problem.status, content_type=MEDIA_TYPE
    )
    if problem.retry_after_s is not None:
        response["Retry-After"] = str(problem.retry_after_s)
    for name, value in problem.headers.items():
        response[name] = value
    return response


def whole_seconds(seconds: float | None, *, default: int = 1) -> int:
    """Retry-After is a whole number of seconds, and never 0: "come back at once" is no advice."""
    if seconds is None or not math.isfinite(seconds):
        return default
    return max(1, math.ceil(seconds))

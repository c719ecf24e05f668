"""How does the API as a whole behave: its title, its parser, and how faults are told?"""

from __future__ import annotations

import json
import logging
from typing import Any

from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.renderers import BaseRenderer

from workers.actions.actor import NotPermitted, NotPossible
from workers.exceptions import StoreUnavailable

from .describing import describe_refusals
from .problems import Problem, problem_response, whole_seconds
from .reading import StrictParser, field_of, say_fault

log = logging.getLogger(__name__)

RETRY_UNAVAILABLE_S = 2


class Renderer(BaseRenderer):
    """JSON as it is: no figure that is not a number, text in UTF-8. Half a character that an earlier release
    has kept is shown as a question mark: one text must not take a whole list along."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, default=str).encode("utf-8", "replace")


class Api(NinjaAPI):
    def get_openapi_schema(self, *args: Any, **kwargs: Any) -> Any:
        return describe_refusals(super().get_openapi_schema(*args, **kwargs))


api = Api(
    title="Sluicegate",
    version="1",
    description="Submit work within bounds, watch the queues, and operate the gate. "
    "Bodies are JSON, whatever their Content-Type says.",
    docs_url=None,
    parser=StrictParser(),
    renderer=Renderer(),
    urls_namespace="api",
)


@api.exception_handler(Problem)
def on_problem(request: HttpRequest, fault: Problem) -> HttpResponse:
    return problem_response(fault)


@api.exception_handler(ValidationError)
def on_invalid(request: HttpRequest, fault: ValidationError) -> HttpResponse:
    errors = [_told(error) for error in fault.errors[:20]]
    first = errors[0] if errors else {"field": "body", "detail": "It does not fit."}
    problem = Problem(
        422, "invalid", f"{first['field']}: {first['detail']}", field=first["field"], extra={"errors": errors}
    )
    return problem_response(problem)


@api.exception_handler(NotPermitted)
def on_not_permitted(request: HttpRequest, fault: NotPermitted) -> HttpResponse:
    return problem_response(Problem(403, "forbidden", str(fault)))


@api.exception_handler(NotPossible)
def on_not_possible(request: HttpRequest, fault: NotPossible) -> HttpResponse:
    return problem_response(Problem(fault.status, fault.reason, fault.detail, field=fault.field))


@api.exception_handler(StoreUnavailable)
def on_unavailable(request: HttpRequest, fault: StoreUnavailable) -> HttpResponse:
    return problem_response(unavailable(fault.reason))


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def on_database(request: HttpRequest, fault: Exception) -> HttpResponse:
    log.warning("the database cannot serve: %s", fault)
    return problem_response(unavailable("database"))


@api.exception_handler(DataError)
def on_unstorable(request: HttpRequest, fault: DataError) -> HttpResponse:
    """PostgreSQL takes no NUL in a text, and no text longer than its column."""
    told = str(fault).strip().split("\n", 1)[0][:200]
    return problem_response(Problem(422, "invalid", f"The database cannot keep what was sent: {told}"))


@api.exception_handler(Http404)
def on_unknown(request: HttpRequest, fault: Http404) -> HttpResponse:
    return problem_response(Problem(404, "unknown", str(fault) or "There is no such thing."))


@api.exception_handler(HttpError)
def on_http_error(request: HttpRequest, fault: HttpError) -> HttpResponse:
    cause = fault.__cause__  # what the parser said, where it was the parser
    return problem_response(
        cause if isinstance(cause, Problem) else Problem(fault.status_code, "malformed", str(fault))
    )


@api.exception_handler(Exception)
def on_fault(request: HttpRequest, fault: Exception) -> HttpResponse:
    log.exception("%s %s failed", request.method, request.path, exc_info=fault)
    return problem_response(Problem(500, "internal", "This failed on our side; it is in the log."))


def unavailable(why: str) -> Problem:
    return Problem(
        503,
        "unavailable",
        f"The gate cannot be reached or cannot serve ({why}). Nothing was accepted.",
        retry_after_s=whole_seconds(RETRY_UNAVAILABLE_S),
        extra={"why": why},
    )


def _told(error: dict[str, Any]) -> dict[str, str]:
    """`("body", "job", "countdown_s")` is the field countdown_s: who sends it does not know of parameters."""
    loc = error["loc"]
    if loc and loc[0] == "body":
        loc = loc[2:]
    elif loc and loc[0] in ("query", "path", "header"):
        loc = loc[1:]
    field = field_of(loc) or "body"
    if error["type"] == "missing" and field == "body":
        return {"field": field, "detail": "It is empty; send JSON"}
    return {"field": field, "detail": say_fault(error)}

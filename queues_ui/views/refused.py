"""What is told for an address that leads nowhere, a failed forgery check, or a fault of ours?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from ..access.caller import address_of, caller_of_user
from ..access.door import refuse
from ..api.problems import Problem, problem_response


def show_csrf_refusal(request: HttpRequest, reason: str = "") -> HttpResponse:
    try:
        caller = (
            caller_of_user(request.user, address=address_of(request)) if hasattr(request, "user") else None
        )
        refuse(request, caller, Problem(403, "csrf", reason or "CSRF verification failed."))
    except Problem as problem:
        return problem_response(problem)


def show_unknown(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return problem_response(Problem(404, "unknown", "There is nothing at this address."))


def show_fault(request: HttpRequest) -> HttpResponse:
    return problem_response(Problem(500, "internal", "This failed on our side; it is in the log."))

"""Are the framework's own refusals told in the API's form too?"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from ..api.problems import Problem, problem_response
from .caller import Caller, address_of, bearer_of, caller_of_key, caller_of_user
from .door import SAFE, refuse


class ApiRefusals:
    """Turns a plain 405 or 400 under /api/ into a problem document, and journals a wrong method."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not request.path.startswith("/api/") or "json" in response.headers.get("Content-Type", ""):
            return response
        if response.status_code == 405:
            return self._wrong_method(request, response)
        if response.status_code == 400:
            return problem_response(Problem(400, "malformed", "The request cannot be read."))
        return response

    def _wrong_method(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        allowed = response.headers.get("Allow", "")
        problem = Problem(405, "method", f"This address takes {allowed}.", headers={"Allow": allowed})
        if request.method in SAFE:
            return problem_response(problem)
        try:
            refuse(request, _caller(request), problem)
        except Problem as refused:
            return problem_response(refused)


def _caller(request: HttpRequest) -> Caller | None:
    secret = bearer_of(request.META.get("HTTP_AUTHORIZATION", ""))
    if secret:
        return caller_of_key(secret, address=address_of(request))
    return caller_of_user(request.user, address=address_of(request)) if hasattr(request, "user") else None

"""What is a browser told whose request failed the forgery check?"""

from django.http import HttpRequest, HttpResponse

from ..api.problems import Problem, problem_response


def show_csrf_refusal(request: HttpRequest, reason: str = "") -> HttpResponse:
    return problem_response(Problem(403, "csrf", reason or "CSRF verification failed."))

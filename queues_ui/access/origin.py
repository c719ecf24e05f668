"""Does a request come from this site, also behind a proxy that ends TLS?"""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware


def is_own_origin(origin: str, host: str) -> bool:
    """Host and port must be those that the browser asked for, or named in the settings.

    The scheme is left out: a proxy that ends TLS is not always known here, and a refusal of one's own
    page would be worse than what an http page of the same host could do with SameSite cookies.
    """
    try:
        netloc = urlsplit(origin).netloc.lower()
    except ValueError:
        return False
    if not netloc:
        return False
    return (
        netloc == host.lower()
        or origin.lower() in settings.CSRF_TRUSTED_ORIGINS
        or netloc in settings.ALLOWED_HOSTS
    )


class SameHostCsrf(CsrfViewMiddleware):
    """Django's check of token and cookie, with the origin compared as above."""

    def _origin_verified(self, request: HttpRequest) -> bool:
        return is_own_origin(request.META["HTTP_ORIGIN"], request.get_host())


class _TellReason(SameHostCsrf):
    def _reject(self, request: HttpRequest, reason: str) -> str:
        return reason


def find_csrf_fault(request: HttpRequest) -> str | None:
    """Why a request with a session may not change anything; None if it may."""
    _ = request.body  # kept: the check looks for a token in what it takes for a form, and would use it up
    check = _TellReason(lambda _: None)
    check.process_request(request)
    return check.process_view(request, lambda: None, (), {})

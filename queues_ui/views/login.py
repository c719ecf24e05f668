"""How does a person come in, and leave?"""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from workers.quarantine.arguments import storable

from ..access import throttle
from ..access.caller import address_of, role_of


@ensure_csrf_cookie
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def show_login(request: HttpRequest) -> HttpResponse:
    target = _own_address(request)
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(target)
        return _page(request, AuthenticationForm(request), target)
    name, address = storable(request.POST.get("username", ""))[:150], address_of(request)
    wait_s = throttle.wait_s(name, address)
    if wait_s is not None:
        response = _page(request, AuthenticationForm(request), target, status=429, wait_s=wait_s)
        response["Retry-After"] = str(wait_s)
        return response
    form = AuthenticationForm(request, data=request.POST)
    if not form.is_valid():
        throttle.note_attempt(name, address, role="", succeeded=False)
        return _page(request, form, target, status=401)
    user = form.get_user()
    login(request, user)
    throttle.note_attempt(user.get_username(), address, role=role_of(user), succeeded=True)
    return redirect(target)


@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect(settings.LOGIN_URL)


def _own_address(request: HttpRequest) -> str:
    """Where to go after: only to this site."""
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    if url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}) and wanted.startswith("/"):
        return wanted
    return "/"


def _page(
    request: HttpRequest,
    form: AuthenticationForm,
    target: str,
    *,
    status: int = 200,
    wait_s: int | None = None,
) -> HttpResponse:
    context = {
        "form": form,
        "next": target,
        "wait_s": wait_s,
        "installation": settings.SLUICEGATE_INSTALLATION,
    }
    return render(request, "login.html", context, status=status)

"""May this request come in, and with which scope?"""

from __future__ import annotations

import logging
import time
from typing import Final, NoReturn

from django.db import DatabaseError
from django.http import HttpRequest
from ninja.security.base import AuthBase

from workers.actions.actor import Actor
from workers.actions.journal import REFUSED, write_entry

from ..api.problems import Problem
from .caller import Caller, address_of, bearer_of, caller_of_key, caller_of_user
from .origin import find_csrf_fault

log = logging.getLogger(__name__)

SAFE: Final = ("GET", "HEAD", "OPTIONS")
UNJOURNALED: Final = ("/api/v1/jobs",)  # submits are counted, not journaled
REFUSALS_A_MINUTE: Final = 120  # journaled in one process; a flood must not fill the disk

_window = {"minute": 0, "count": 0}


class Scope(AuthBase):
    """An authentication for one route: the caller must hold `scope`, or one of several."""

    openapi_type = "http"
    openapi_scheme = "bearer"

    def __init__(self, *scopes: str) -> None:
        super().__init__()
        self.scopes = scopes

    def __call__(self, request: HttpRequest) -> Caller:
        caller = find_caller(request)
        if not caller.scopes.intersection(self.scopes):
            needed = " or ".join(self.scopes)
            refuse(
                request,
                caller,
                Problem(403, "forbidden", f"This needs the scope {needed}.", field="Authorization"),
            )
        if caller.via == "page" and request.method not in SAFE:
            fault = find_csrf_fault(request)
            if fault:
                refuse(request, caller, Problem(403, "csrf", fault))
        return caller


def find_caller(request: HttpRequest) -> Caller:
    """By key if one is given, else by the browser's session."""
    address = address_of(request)
    header = request.META.get("HTTP_AUTHORIZATION", "")
    if header:
        secret = bearer_of(header)
        caller = caller_of_key(secret, address=address) if secret else None
        if caller is None:
            refuse(request, None, unauthorized("This key is not known, or it was revoked."))
        return caller
    caller = caller_of_user(request.user, address=address)
    if caller is None:
        refuse(request, None, unauthorized("Log in, or send a key: Authorization: Bearer KEY."))
    return caller


def unauthorized(detail: str) -> Problem:
    return Problem(
        401,
        "unauthorized",
        detail,
        field="Authorization",
        headers={"WWW-Authenticate": 'Bearer realm="sluicegate"'},
    )


def refuse(request: HttpRequest, caller: Caller | None, problem: Problem) -> NoReturn:
    """Always raises; what would have changed something goes into the journal."""
    if request.method not in SAFE and request.path not in UNJOURNALED and _may_journal():
        actor = caller.actor if caller else Actor("nobody", "", "api", address_of(request))
        try:
            write_entry(
                actor,
                f"{request.method} {request.path}"[:60],
                target=request.path,
                reason=problem.reason,
                outcome=REFUSED,
            )
        except DatabaseError:
            log.exception("a refusal could not be journaled")
    raise problem


def _may_journal() -> bool:
    minute = int(time.monotonic() // 60)
    if _window["minute"] != minute:
        _window.update(minute=minute, count=0)
    _window["count"] += 1
    return _window["count"] <= REFUSALS_A_MINUTE

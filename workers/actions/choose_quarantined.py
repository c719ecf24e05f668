"""Which held jobs does a request mean? By ids, or by a filter that the page and the API share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Q, QuerySet

from ..models import QuarantinedJob
from ..privacy.classes import RULES
from .actor import NotPossible

MOST: Final = 10_000  # jobs in one batch; a larger choice is cut there, and the answer says so
#: Classes whose error text is shown unasked: a search must not find what it may not show.
TOLD: Final = tuple(name for name, handling in RULES.items() if handling.error_text)
WORDS: Final = (
    "payload_class",
    "queue",
    "task",
    "tenant",
    "reason",
    "error_type",
    "fingerprint",
    "worker",
    "state",
    "replay_of",
)


def filter_jobs(wanted: Mapping[str, Any]) -> QuerySet[QuarantinedJob]:
    """Exact words, a range of `since_ms` and `until_ms`, and `search` in message, arguments and id."""
    jobs = QuarantinedJob.objects.all()
    for name, value in wanted.items():
        if value in (None, ""):
            continue
        if name in WORDS:
            jobs = jobs.filter(**{name: str(value)})
        elif name == "since_ms":
            jobs = jobs.filter(quarantined_at_ms__gte=int(value))
        elif name == "until_ms":
            jobs = jobs.filter(quarantined_at_ms__lte=int(value))
        elif name == "search":
            text = str(value)[:200]
            jobs = jobs.filter(
                Q(message__icontains=text, payload_class__in=TOLD)
                | Q(args_text__icontains=text)
                | Q(op_id__startswith=text)
                | Q(task__icontains=text)
                | Q(error_type__icontains=text)
            )
        else:
            raise NotPossible("invalid", f"{name} is not a field to filter by.", field=f"filter.{name}")
    return jobs


def choose_held(
    *, ids: list[str] | None, wanted: Mapping[str, Any] | None, tenant: str | None
) -> tuple[list[QuarantinedJob], int]:
    """The held jobs meant, oldest first, and how many of those asked for are not held (any more)."""
    if (ids is None) == (wanted is None):
        raise NotPossible("invalid", "Give either ids or filter.", field="ids")
    if ids is not None:
        if not 0 < len(ids) <= MOST:
            raise NotPossible("invalid", f"Give 1 to {MOST} ids.", field="ids")
        jobs = QuarantinedJob.objects.filter(op_id__in=set(ids))
    else:
        jobs = filter_jobs(wanted or {})
    if tenant is not None:
        jobs = jobs.filter(tenant=tenant)
    held = list(
        jobs.filter(state=QuarantinedJob.HELD)
        .select_for_update()
        .defer("payload", "traceback", "words_sealed")
        .order_by("quarantined_at_ms", "id")[:MOST]
    )
    missed = len(set(ids)) - len(held) if ids is not None else 0
    return held, missed

"""Which held jobs does a request mean? By ids, or by a filter that the page and the API share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Q, QuerySet

from ..models import QuarantinedJob
from ..privacy.classes import RULES
from ..states import QUARANTINE_REASONS
from .actor import NotPossible
from .change_policy import newest_version, newest_versions
from .naming import tell_no_queue

MOST: Final = 10_000  # jobs in one batch; a larger choice is cut there, and the answer says so
LONGEST: Final = 300  # characters of a word to filter by: a batch keeps its filter
#: Classes whose error text is shown unasked: a search must not find what it may not show.
TOLD: Final = tuple(name for name, handling in RULES.items() if handling.error_text)
#: Fields that hold one of few words: another finds nothing, ever.
CLOSED: Final[Mapping[str, tuple[str, ...]]] = {
    "payload_class": tuple(RULES),
    "reason": QUARANTINE_REASONS,
    "state": tuple(state for state, _ in QuarantinedJob.STATES),
}
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


def filter_jobs(wanted: Mapping[str, Any], *, within: str = "filter.") -> QuerySet[QuarantinedJob]:
    """Exact words, a range of `since_ms` and `until_ms`, and `search` in message, arguments and id.

    ``within`` is where the request has these fields, for the one at fault.
    """
    jobs = QuarantinedJob.objects.all()
    for name, value in wanted.items():
        if value in (None, ""):
            continue
        if name in WORDS:
            word = _text(within + name, value)
            if word not in CLOSED.get(name, (word,)):
                raise NotPossible(
                    "invalid", f"{name} must be one of {', '.join(CLOSED[name])}.", field=within + name
                )
            jobs = jobs.filter(**{name: word})
        elif name == "since_ms":
            jobs = jobs.filter(quarantined_at_ms__gte=_moment(within + name, value))
        elif name == "until_ms":
            jobs = jobs.filter(quarantined_at_ms__lte=_moment(within + name, value))
        elif name == "search":
            text = _text(within + name, value)
            jobs = jobs.filter(
                Q(message__icontains=text, payload_class__in=TOLD)
                | Q(args_text__icontains=text)
                | Q(op_id__startswith=text)
                | Q(task__icontains=text)
                | Q(error_type__icontains=text)
            )
        else:
            fields = ", ".join((*WORDS, "since_ms", "until_ms", "search"))
            raise NotPossible(
                "invalid",
                f"{name[:LONGEST]} is not a field to filter by; they are {fields}.",
                field=f"{within}{name[:LONGEST]}",
            )
    return jobs


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise NotPossible("invalid", f"{field} must be a text of at most {LONGEST} characters.", field=field)
    return value


def _moment(field: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotPossible("invalid", f"{field} must be whole milliseconds since the epoch.", field=field)
    return value


def _was_held(queue: str) -> bool:
    """What was held outlives its queue's policy."""
    return bool(QuarantinedJob.objects.filter(queue=queue).exists())


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
    queue = (wanted or {}).get("queue")
    if queue and not held and newest_version(queue) is None and not _was_held(queue):
        raise NotPossible("unknown_queue", tell_no_queue(queue, newest_versions()), field="filter.queue")
    missed = len(set(ids)) - len(held) if ids is not None else 0
    return held, missed

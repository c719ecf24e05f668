"""What do the jobs in quarantine that a request means come to: how many, how large, of which causes?

Rows are wide (payload, traceback), so everything here is read from covering indexes alone; a search of text
reads each row once, and no row twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Count, Max, Min, QuerySet, Sum, Value
from django.db.models.functions import Concat

from workers.models import QuarantinedJob

MOST_FOUND: Final = 10_000  # by a search of text
CAUSES_SHOWN: Final = 20
EVERY_STATE: Final = tuple(state for state, _ in QuarantinedJob.STATES)


@dataclass(slots=True)
class Cause:
    """Jobs of one fingerprint; ``newest`` is the key of the one that gives the cause its name."""

    fingerprint: str
    count: int
    first_at_ms: int
    last_at_ms: int
    newest: int


@dataclass(slots=True)
class Held:
    """``keys`` are those that a search found, newest first; None where none was made."""

    count: int = 0
    bytes: int = 0
    oldest_at_ms: int | None = None
    causes: list[Cause] = field(default_factory=list)
    keys: list[int] | None = None
    capped: bool = False


def sum_up(jobs: QuerySet[QuarantinedJob], *, narrowed: bool) -> Held:
    """``narrowed``: by queue, tenant or class, which stand in other indexes than the causes do."""
    jobs = jobs.order_by()
    sums = jobs.aggregate(count=Count("*"), bytes=Sum("bytes"), oldest=Min("quarantined_at_ms"))
    # SQLite takes the index that groups by itself, though it must read each wide row for the rest; grouped by
    # an expression it takes the one that has all that is asked for.
    name: Any = Concat("fingerprint", Value("")) if narrowed else None
    groups = jobs.annotate(cause=name).values("cause") if narrowed else jobs.values("fingerprint")
    groups = groups.annotate(
        n=Count("*"), first=Min("quarantined_at_ms"), last=Max("quarantined_at_ms"), newest=Max("pk")
    ).order_by("-n", "cause" if narrowed else "fingerprint")
    causes = [
        Cause(row["cause" if narrowed else "fingerprint"], row["n"], row["first"], row["last"], row["newest"])
        for row in groups[:CAUSES_SHOWN]
    ]
    return Held(sums["count"], sums["bytes"] or 0, sums["oldest"], causes)


def search_through(jobs: QuerySet[QuarantinedJob], *, most: int = MOST_FOUND) -> Held:
    """One pass over the rows of a search of text, for the page, the sums and the causes alike."""
    asked = jobs.order_by("-pk").values_list("pk", "bytes", "quarantined_at_ms", "fingerprint")
    found = list(asked[: most + 1])
    held = Held(capped=len(found) > most, keys=[])
    causes: dict[str, Cause] = {}
    assert held.keys is not None
    for key, size, at_ms, print_ in found[:most]:
        held.keys.append(key)
        held.count += 1
        held.bytes += size
        held.oldest_at_ms = at_ms if held.oldest_at_ms is None else min(held.oldest_at_ms, at_ms)
        cause = causes.setdefault(print_, Cause(print_, 0, at_ms, at_ms, key))
        cause.count += 1
        cause.first_at_ms, cause.last_at_ms = min(cause.first_at_ms, at_ms), max(cause.last_at_ms, at_ms)
    held.causes = sorted(causes.values(), key=lambda cause: (-cause.count, cause.fingerprint))[:CAUSES_SHOWN]
    return held


def show_causes(causes: Iterable[Cause]) -> list[dict[str, Any]]:
    """With what the newest job of each is called by."""
    causes = list(causes)
    words = {
        key: (task, error_type, reason)
        for key, task, error_type, reason in QuarantinedJob.objects.filter(
            pk__in=[cause.newest for cause in causes]
        ).values_list("pk", "task", "error_type", "reason")
    }
    shown = []
    for cause in causes:
        if cause.newest not in words:
            continue  # gone meanwhile
        task, error_type, reason = words[cause.newest]
        shown.append(
            {
                "fingerprint": cause.fingerprint,
                "task": task,
                "label": error_type or reason,
                "reason": reason,
                "count": cause.count,
                "first_at_ms": cause.first_at_ms,
                "last_at_ms": cause.last_at_ms,
            }
        )
    return shown

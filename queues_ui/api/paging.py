"""How is a long list read page by page? From the newest down, by a cursor that new rows do not move."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet

MOST: Final = 200
DEFAULT: Final = 50
#: A page ends before it has more bytes of JSON: tenants and operators choose how long their texts are.
MOST_BYTES: Final = 700_000

EPOCH: Final = datetime.fromtimestamp(0, UTC)
MICROSECOND: Final = timedelta(microseconds=1)
LAST_US: Final = 250_000_000_000_000_000  # in the year 9892: a moment that a `datetime` can still be


@dataclass(frozen=True, slots=True)
class Page:
    """``rows`` of the page, how a row is named as the cursor of the next, and whether there is a next."""

    rows: list[Any]
    mark: Callable[[Any], int]
    more: bool


def page_of(rows: QuerySet[Any], *, before: int | None, limit: int | None) -> Page:
    """By descending id."""
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return _cut(rows.order_by("-pk"), limit, lambda row: int(row.pk))


def page_by_time(rows: QuerySet[Any], field: str, *, before: int | None, limit: int | None) -> Page:
    """Where ids are no numbers: by when a row was made, the cursor being that in microseconds."""
    if before is not None:
        rows = rows.filter(**{f"{field}__lt": EPOCH + MICROSECOND * min(LAST_US, max(0, before))})
    return _cut(rows.order_by(f"-{field}"), limit, lambda row: (getattr(row, field) - EPOCH) // MICROSECOND)


def page_by_ms(rows: QuerySet[Any], field: str, *, before: int | None, limit: int | None) -> Page:
    """The same where that moment is kept in milliseconds."""
    if before is not None:
        rows = rows.filter(**{f"{field}__lt": before})
    return _cut(rows.order_by(f"-{field}"), limit, lambda row: int(getattr(row, field)))


def page_document(
    name: str, page: Page, show: Callable[[Any], dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """The rows, as ``show`` tells each, as far as they fit; the rest is the next page."""
    shown: list[dict[str, Any]] = []
    size = 0
    for row in page.rows:
        line = show(row)
        size += len(json.dumps(line, default=str, ensure_ascii=False).encode("utf-8", "replace"))
        if shown and size > MOST_BYTES:
            break
        shown.append(line)
    is_cut = page.more or len(shown) < len(page.rows)
    return {name: shown, "next_before": page.mark(page.rows[len(shown) - 1]) if is_cut else None, **more}


def _cut(rows: QuerySet[Any], limit: int | None, mark: Callable[[Any], int]) -> Page:
    size = min(MOST, max(1, limit or DEFAULT))
    found = list(rows[: size + 1])
    return Page(found[:size], mark, len(found) > size)

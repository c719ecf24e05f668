"""How is a long list read page by page? From the newest down, by a cursor that new rows do not move."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet

MOST: Final = 200
DEFAULT: Final = 50


def page_of(rows: QuerySet[Any], *, before: int | None, limit: int | None) -> tuple[list[Any], int | None]:
    """A page and the cursor of the next one; rows must be ordered by descending id."""
    size = min(MOST, max(1, limit or DEFAULT))
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows.order_by("-pk")[: size + 1])
    more = len(found) > size
    return found[:size], found[size - 1].pk if more else None


def page_document(name: str, shown: list[Any], cursor: int | None, **more: Any) -> dict[str, Any]:
    return {name: shown, "next_before": cursor, **more}

"""How is a long list read page by page? From the newest down, by a cursor that new rows do not move."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from django.db.models import QuerySet

MOST: Final = 200
DEFAULT: Final = 50
#: A page ends before it has more bytes of JSON: tenants and operators choose how long their texts are.
MOST_BYTES: Final = 700_000


def page_of(rows: QuerySet[Any], *, before: int | None, limit: int | None) -> tuple[list[Any], int | None]:
    """A page and the cursor of the next one; rows must be ordered by descending id."""
    size = min(MOST, max(1, limit or DEFAULT))
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows.order_by("-pk")[: size + 1])
    more = len(found) > size
    return found[:size], found[size - 1].pk if more else None


def page_document(
    name: str, found: list[Any], cursor: int | None, show: Callable[[Any], dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """What is found, as ``show`` tells each, as far as it fits; the rest is the next page."""
    shown: list[dict[str, Any]] = []
    size = 0
    for row in found:
        line = show(row)
        size += len(json.dumps(line, default=str, ensure_ascii=False).encode())
        if shown and size > MOST_BYTES:
            cursor = found[len(shown) - 1].pk
            break
        shown.append(line)
    return {name: shown, "next_before": cursor, **more}

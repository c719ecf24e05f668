"""Which instant did a request mean? Milliseconds or ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime

from .actor import NotPossible

LATEST_MS = 4_102_444_800_000  # the year 2100: later is a slip, most often microseconds


def read_moment(value: int | float | str | None, *, field: str) -> int | None:
    """Whole milliseconds since the epoch; a time without a zone is taken as UTC."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        if value.isascii() and value.isdigit():
            value = int(value)
        else:
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                raise NotPossible(
                    "invalid", f"{field} is neither milliseconds nor ISO 8601.", field=field
                ) from None
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return int(moment.timestamp() * 1000)
    if isinstance(value, bool) or not 0 < value < LATEST_MS:
        raise NotPossible(
            "invalid", f"{field} must be milliseconds since the epoch, before 2100.", field=field
        )
    return int(value)

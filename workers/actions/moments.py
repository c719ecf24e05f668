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
            return _check_end(int(moment.timestamp() * 1000), field)
    if isinstance(value, bool) or value <= 0:
        raise NotPossible("invalid", f"{field} must be milliseconds since the epoch.", field=field)
    return _check_end(int(value), field)


def _check_end(at_ms: int, field: str) -> int:
    if at_ms >= LATEST_MS:
        raise NotPossible("invalid", f"{field} must be a time before the year 2100.", field=field)
    return at_ms

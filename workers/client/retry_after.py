"""When does a Retry-After header ask us back?"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Seconds from ``now``; None for a header that is missing or says nothing. Never negative.

    RFC 9110 allows whole seconds or an HTTP date. ``now`` should be the answer's own Date where it has
    one: the distance between two times of one clock does not depend on ours.
    """
    if value is None:
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def parse_date(value: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value or "")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

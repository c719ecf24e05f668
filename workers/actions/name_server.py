"""Which Redis is watched? Written down when it changes, so that another is not taken for a loss."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from ..models import JournalEntry
from .actor import MONITOR
from .journal import write_entry

VERB: Final = "watch_redis"


def execute() -> bool:
    """Whether it is another than the one that was watched before."""
    address = _address()
    newest = JournalEntry.objects.filter(verb=VERB).order_by("-id").first()
    before = newest.target if newest else None
    if before == address:
        return False
    write_entry(MONITOR, VERB, target=address, before=before and {"redis": before}, after={"redis": address})
    return before is not None


def _address() -> str:
    """Without what a password could be in, as the journal keeps it."""
    parts = urlsplit(settings.SLUICEGATE_REDIS_URL)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"{place} gate {settings.SLUICEGATE_GATE}"[:300]

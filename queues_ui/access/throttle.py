"""Has somebody guessed passwords too often? Counted in the journal, so that all web processes agree."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.utils import timezone

from workers.actions.actor import Actor
from workers.actions.journal import DONE, REFUSED, write_entry
from workers.models import JournalEntry

VERB: Final = "log_in"
WINDOW: Final = timedelta(minutes=5)
MOST_A_NAME: Final = 10  # wrong passwords for one name from one address
MOST_AN_ADDRESS: Final = 60


def wait_s(name: str, address: str) -> int | None:
    """Seconds until another try is allowed; None if it is allowed now."""
    since = timezone.now() - WINDOW
    failed = JournalEntry.objects.filter(verb=VERB, outcome=REFUSED, at__gt=since, address=address[:64])
    for rows, most in ((failed.filter(actor=name[:150]), MOST_A_NAME), (failed, MOST_AN_ADDRESS)):
        times = list(rows.order_by("-at").values_list("at", flat=True)[:most])
        if len(times) == most:
            return max(1, int((times[-1] + WINDOW - timezone.now()).total_seconds()) + 1)
    return None


def note_attempt(name: str, address: str, *, role: str, succeeded: bool) -> None:
    write_entry(Actor(name, role, "page", address), VERB, outcome=DONE if succeeded else REFUSED)

"""Redis lost data: written down once, so that everybody who asks for what is gone can be told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.utils import timezone

from ..metrics.loss import Loss, say_loss
from ..models import JournalEntry
from .actor import MONITOR
from .journal import write_entry

VERB: Final = "data_lost"
TOLD_FOR_S: Final = 24 * 3600
SAME_WITHIN_MS: Final = 60_000  # the sampler and the publisher may both find one loss


def execute(loss: Loss) -> bool:
    """Whether it is a new one."""
    known = newest_loss()
    if known is not None and loss.found_at_ms - int(known["found_at_ms"]) < SAME_WITHIN_MS:
        return False
    write_entry(MONITOR, VERB, target="*", reason=say_loss(loss.as_dict()), after=loss.as_dict())
    return True


def newest_loss() -> dict[str, Any] | None:
    """The newest loss of the last 24 hours, as ``Loss.as_dict``."""
    since = timezone.now() - timedelta(seconds=TOLD_FOR_S)
    found = JournalEntry.objects.filter(verb=VERB, at__gte=since).order_by("-id").first()
    return dict(found.after) if found is not None and isinstance(found.after, dict) else None

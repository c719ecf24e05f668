"""How long is what kept in the database?"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.contrib.sessions.models import Session
from django.utils import timezone

from ..actions import cancel
from ..actions.journal import REFUSED
from ..models import Alert, JournalEntry, QuarantinedJob, ReplayBatch, Transition
from ..models.quarantined_job import NO_WORDS
from ..privacy.classes import RULES
from ..store import Store
from .recorder import drop

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 60.0
JOURNAL_DAYS = 365
STRANGERS_KEPT = 100_000  # entries that whoever may knock or submit writes: refusals, and cancels
TRANSITION_DAYS = 365
ALERT_DAYS = 90
BATCH_DAYS = 90
SETTLED_QUARANTINE_DAYS = 30  # replayed and discarded ones: the lineage of a replay is looked up for weeks


def forget_payloads(now_ms: int) -> int:
    """Takes payloads out of rows that their class keeps no longer; how many. Such a job runs no more."""
    forgotten = 0
    for name, handling in RULES.items():
        if handling.payload_kept_s is None:
            continue
        old = QuarantinedJob.objects.filter(
            payload_class=name, payload_gone="", quarantined_at_ms__lt=now_ms - 1000 * handling.payload_kept_s
        ).exclude(state=QuarantinedJob.REPLAYING)
        keys = list(old.order_by().values_list("pk", flat=True)[:5000])
        why = f"kept {handling.payload_kept_s // 86_400} days: {name}"
        for start in range(0, len(keys), 500):
            rows = QuarantinedJob.objects.filter(pk__in=keys[start : start + 500])
            rows.filter(state=QuarantinedJob.HELD).update(state=QuarantinedJob.DISCARDED)
            rows.update(payload=b"", payload_gone=why, args_text="", **NO_WORDS)
        forgotten += len(keys)
    return forgotten


def forget_strangers() -> int:
    """The oldest refusals, and the oldest cancels, beyond the bound; how many. Time alone bounds neither."""
    forgotten = 0
    for written in (
        JournalEntry.objects.filter(outcome=REFUSED),
        JournalEntry.objects.filter(verb=cancel.VERB),
    ):
        beyond = written.order_by("-pk").values_list("pk", flat=True)[STRANGERS_KEPT : STRANGERS_KEPT + 1]
        newest_beyond = next(iter(beyond), None)
        if newest_beyond is not None:
            forgotten += written.filter(pk__lte=newest_beyond).delete()[0]
    return forgotten


class Retention:
    def __init__(self, store: Store) -> None:
        self._store = store

    def tick(self) -> bool:
        now, now_ms = timezone.now(), self._store.clock.now_ms()
        for queue, policy in self._store.read_policies().items():
            age_s = policy.get("quarantine_max_age_s")
            if age_s is not None:
                old = QuarantinedJob.objects.filter(
                    queue=queue, state=QuarantinedJob.HELD, quarantined_at_ms__lt=now_ms - 1000 * age_s
                )
                drop(queue, old.values_list("pk", flat=True)[:5000], why=f"held for more than {age_s:g} s")
        forget_payloads(now_ms)
        settled = (QuarantinedJob.REPLAYED, QuarantinedJob.DISCARDED, QuarantinedJob.DELETED)
        horizon_ms = now_ms - SETTLED_QUARANTINE_DAYS * 86_400_000
        QuarantinedJob.objects.filter(state__in=settled, quarantined_at_ms__lt=horizon_ms).delete()
        JournalEntry.objects.filter(at__lt=now - timedelta(days=JOURNAL_DAYS)).delete()
        forget_strangers()
        Session.objects.filter(expire_date__lt=now).delete()
        Transition.objects.filter(at_ms__lt=now_ms - TRANSITION_DAYS * 86_400_000).delete()
        Alert.objects.filter(cleared_at_ms__lt=now_ms - ALERT_DAYS * 86_400_000).delete()
        ReplayBatch.objects.filter(finished_at__lt=now - timedelta(days=BATCH_DAYS)).delete()
        return False

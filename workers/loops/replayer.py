"""Are replays run at their rate, each job once, however often the process dies?"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.utils import timezone

from ..models import QuarantinedJob, ReplayBatch, ReplayItem
from ..quarantine.replay import (
    FAILURES_IN_A_ROW,
    PASSING_REASONS,
    affordable,
    downstream_rate,
    make_offer,
    replay_id,
    why_wait,
)
from ..store import Offer, Store, Verdict

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 0.2
IDLE_S = 1.0  # how often the database is asked while no batch runs
LONGEST_WAIT_S = 30.0
SAVED_UP_S = 1.0  # a batch that was held up goes on at its rate and does not make up for it in a burst
Latest = Callable[[], tuple[dict[str, Any], dict[str, Any]] | None]


class Pace:
    """How far one batch is in time, and how often in a row it failed."""

    def __init__(self, now: float) -> None:
        self.paid_until = now
        self.not_before = now
        self.failures = 0


class Replayer:
    """Ids follow from batch and job, and the gate knows an id again: killed half way, it doubles nothing."""

    def __init__(self, store: Store, latest: Latest, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock  # seconds
        self._latest = latest
        self._paces: dict[uuid.UUID, Pace] = {}
        self._idle_until = 0.0

    def tick(self) -> bool:
        if self._clock() < self._idle_until:
            return False
        batches = list(ReplayBatch.objects.filter(state=ReplayBatch.RUNNING, verb=ReplayBatch.REPLAY))
        if not batches:
            self._idle_until = self._clock() + IDLE_S
        for gone in set(self._paces) - {batch.pk for batch in batches}:
            del self._paces[gone]
        for batch in batches:
            self._advance(batch, self._paces.setdefault(batch.pk, Pace(self._clock())))
        return False

    def _advance(self, batch: ReplayBatch, pace: Pace) -> None:
        now = self._clock()
        if now < pace.not_before:
            return
        pace.paid_until = max(pace.paid_until, now - SAVED_UP_S)
        since_s = now - pace.paid_until
        count = affordable(rate_per_s=batch.rate_per_s, since_s=since_s)
        if count == 0 and batch.items.filter(state=ReplayItem.PENDING).exists():
            return
        items = list(
            batch.items.filter(state=ReplayItem.PENDING)
            .select_related("job")
            .defer("job__traceback", "job__words_sealed")[: max(count, 1)]
        )
        if not items:
            self._finish(batch, ReplayBatch.DONE, "")
            return
        frame = self._latest()
        if frame is None:
            return
        ready, why = [], ""
        for item in items:
            waits = why_wait(item.job.queue, frame[0])
            if waits:
                why = f"waits: {waits}"
            else:
                ready.append(item)
        if why != batch.note and (why or batch.note.startswith("waits: ")):
            ReplayBatch.objects.filter(pk=batch.pk).update(note=why)
        if not ready:
            pace.paid_until, pace.not_before = now, now + 1.0
            return
        # What the slowest downstream among them bears decides, not how many slots are idle.
        borne = (downstream_rate(item.job.queue, frame[0]) for item in ready)
        rate = min((batch.rate_per_s, *(each for each in borne if each is not None)))
        if rate < batch.rate_per_s:
            ready = ready[: max(1, affordable(rate_per_s=rate, since_s=since_s))]
        self._replay(batch, pace, ready)
        pace.paid_until += len(ready) / rate

    def _replay(self, batch: ReplayBatch, pace: Pace, items: list[ReplayItem]) -> None:
        now_ms = self._store.clock.now_ms()
        offers: list[tuple[ReplayItem, Offer]] = []
        for item in items:
            job = item.job
            late = job.replay_until_at_ms is not None and job.replay_until_at_ms <= now_ms
            if late and not batch.override_expired:
                settle(batch, item, ReplayItem.SKIPPED, detail="its replay_until has passed")
                continue
            try:
                offer, sealed = offer_of(batch, job), ""
            except ValueError as fault:
                offer, sealed = None, str(fault)
            if offer is None:
                why = sealed or job.payload_gone or "its message cannot be read, so it cannot be run"
                self._count_failure(batch, pace, item, why)
            else:
                offers.append((item, offer))
        if not offers or pace.failures >= FAILURES_IN_A_ROW:
            return
        verdicts = self._store.admit([offer for _, offer in offers])
        for (item, _), verdict in zip(offers, verdicts, strict=True):
            if pace.failures >= FAILURES_IN_A_ROW:
                return
            self._take(batch, pace, item, verdict)

    def _take(self, batch: ReplayBatch, pace: Pace, item: ReplayItem, verdict: Verdict) -> None:
        if verdict.accepted:
            pace.failures = 0
            new_id = replay_id(batch.pk, item.job.op_id)
            settle(batch, item, ReplayItem.DONE, new_id=new_id)
            self._store.note_replayed(item.job.op_id, new_id)
        elif verdict.reason in PASSING_REASONS:
            wait_s = min(LONGEST_WAIT_S, max(1.0, verdict.retry_after_s or 1.0))
            pace.not_before = max(pace.not_before, self._clock() + wait_s)
            pace.paid_until = pace.not_before
        else:
            self._count_failure(batch, pace, item, f"refused: {verdict.reason}")

    def _count_failure(self, batch: ReplayBatch, pace: Pace, item: ReplayItem, detail: str) -> None:
        settle(batch, item, ReplayItem.FAILED, detail=detail)
        pace.failures += 1
        if pace.failures >= FAILURES_IN_A_ROW:
            self._finish(
                batch, ReplayBatch.STOPPED, f"stopped after {pace.failures} failures in a row: {detail}"
            )

    def _finish(self, batch: ReplayBatch, state: str, note: str) -> None:
        with transaction.atomic():
            fresh = ReplayBatch.objects.select_for_update().get(pk=batch.pk)
            if fresh.state != ReplayBatch.RUNNING:
                return
            left = fresh.items.filter(state=ReplayItem.PENDING)
            QuarantinedJob.objects.filter(
                pk__in=left.values("job_id"), state=QuarantinedJob.REPLAYING
            ).update(state=QuarantinedJob.HELD)
            fresh.skipped += left.update(state=ReplayItem.SKIPPED, detail=note)
            fresh.state, fresh.finished_at = state, timezone.now()
            if note or fresh.note.startswith("waits: "):
                fresh.note = note
            fresh.save()
        log.info("%s of %d jobs by %s: %s, %d done", batch.verb, fresh.total, batch.by, state, fresh.done)


def offer_of(batch: ReplayBatch, job: QuarantinedJob) -> Offer | None:
    return make_offer(
        batch_id=batch.pk,
        op_id=job.op_id,
        task=job.task,
        queue=job.queue,
        tenant=job.tenant,
        payload=bytes(job.payload),
        replay_until_at_ms=job.replay_until_at_ms,
        payload_class=job.payload_class,
        tags=job.tags,
    )


def settle(batch: ReplayBatch, item: ReplayItem, state: str, *, new_id: str = "", detail: str = "") -> bool:
    """Ends one item once; the counters follow the item in the same transaction."""
    with transaction.atomic():
        ended = ReplayItem.objects.filter(pk=item.pk, state=ReplayItem.PENDING).update(
            state=state, new_id=new_id, detail=detail
        )
        if not ended:
            return False
        job = QuarantinedJob.objects.filter(pk=item.job_id)
        if state == ReplayItem.DONE:
            job.update(state=QuarantinedJob.REPLAYED, replayed_as=new_id)
        else:
            job.filter(state=QuarantinedJob.REPLAYING).update(state=QuarantinedJob.HELD)
        fresh = ReplayBatch.objects.select_for_update().get(pk=batch.pk)
        counter = {ReplayItem.DONE: "done", ReplayItem.FAILED: "failed"}.get(state, "skipped")
        setattr(fresh, counter, getattr(fresh, counter) + 1)
        fresh.save(update_fields=[counter])
    return True

"""Is every quarantined job in the database? Copied first and forgotten in Redis after: none is lost."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import DataError, Error, transaction
from django.db.models import Count, Sum
from django.utils import timezone

from ..models import JournalEntry, QuarantinedJob
from ..privacy.classes import handling_of
from ..privacy.errors import open_words, seal_words
from ..privacy.redact import scrub_text
from ..privacy.seal import key_id_of
from ..quarantine.arguments import describe_arguments, storable
from ..quarantine.bounds import Held, choose_dropped
from ..quarantine.fingerprint import fingerprint
from ..store import Store
from ..store.records import QuarantinedRecord
from .database_health import DatabaseHealth

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 0.5
BATCH = 100
MESSAGE_CHARS = 10_000
TRACEBACK_CHARS = 60_000
ONE_ENTRY_S = 600  # what a full quarantine drops within this is one entry of the journal


class Recorder:
    """Idempotent by operation id: dying between copy and forgetting copies once more and adds nothing."""

    def __init__(self, store: Store, health: DatabaseHealth | None = None) -> None:
        self._store = store
        self._health = health or DatabaseHealth()

    def tick(self) -> bool:
        records = self._store.read_quarantine_spool(BATCH)
        if not records:
            return False
        try:
            with self._health.attempt("recording"):
                copy(records)
        except Error as exc:
            log.warning("quarantined jobs wait in Redis for the database: %s", exc)
            return False
        self._store.forget_spooled([record.id for record in records])
        policies = self._store.read_policies()
        for queue in {record.queue for record in records}:
            enforce_bounds(queue, policies.get(queue, {}))
        return True  # there may be more: what is read at once is bounded in bytes too


def copy(records: list[QuarantinedRecord]) -> None:
    """All or none; what the database takes in no form but its bare facts is kept by those."""
    try:
        with transaction.atomic():
            QuarantinedJob.objects.bulk_create([to_row(record) for record in records], ignore_conflicts=True)
    except DataError as exc:
        log.warning("a job cannot be stored as it is, so each is stored alone: %s", exc)
        for record in records:
            try:
                with transaction.atomic():
                    QuarantinedJob.objects.bulk_create([to_row(record)], ignore_conflicts=True)
            except DataError as fault:
                with transaction.atomic():
                    QuarantinedJob.objects.bulk_create([to_bare_row(record, fault)], ignore_conflicts=True)


def to_bare_row(record: QuarantinedRecord, fault: Exception) -> QuarantinedJob:
    return QuarantinedJob(
        op_id=storable(record.id)[:255],
        task=storable(record.task)[:255],
        queue=storable(record.queue)[:200],
        tenant=storable(record.tenant)[:255],
        reason=record.reason[:40],
        message=f"The rest could not be stored: {storable(str(fault))}"[:MESSAGE_CHARS],
        payload=record.payload,
        quarantined_at_ms=record.quarantined_at_ms,
        fingerprint="unstorable",
        bytes=len(record.payload),
    )


def to_row(record: QuarantinedRecord) -> QuarantinedJob:
    """A row of it; a secret payload is not copied in clear."""
    told = handling_of(record.payload_class).error_text
    message, traceback, sealed = record.message, record.traceback, record.words_sealed
    if sealed:
        try:
            message, traceback = open_words(sealed, record.id)
        except ValueError as fault:
            log.warning("the error of %s is kept as it is: %s", record.id, fault)
    message = storable(scrub_text(message))
    traceback = storable(scrub_text(traceback[-TRACEBACK_CHARS:]))
    payload, gone = record.payload, ""
    key_id = key_id_of(payload) or ""
    if handling_of(record.payload_class).needs_encryption and not key_id:
        payload, gone = b"", "a secret payload is not kept in clear"
    # A cause is made of what may be told: the digest of a short text could be guessed.
    cause = record.fingerprint or fingerprint(
        reason=record.reason,
        error_type=record.error_type,
        message=message if told else "",
        traceback=traceback,
        task=record.task,
    )
    words = seal_words(message, traceback, payload_class=record.payload_class, op_id=record.id) or sealed
    if words:
        message = traceback = ""
    return QuarantinedJob(
        op_id=record.id,
        task=storable(record.task)[:255],
        queue=storable(record.queue)[:200],
        tenant=storable(record.tenant)[:255],
        reason=record.reason,
        error_type=storable(record.error_type)[:255],
        message=message[:MESSAGE_CHARS],
        traceback=traceback,
        words_sealed=words,
        words_key_id=(key_id_of(words) or "")[:8],
        payload=payload,
        payload_class=record.payload_class,
        payload_gone=gone,
        key_id=key_id[:8],
        args_text=storable(describe_arguments(record.payload, record.payload_class, record.id)),
        tags=[storable(tag) for tag in record.tags],
        attempts=record.attempts,
        deliveries=record.deliveries,
        times=record.times,
        quarantined_at_ms=record.quarantined_at_ms,
        fingerprint=cause,
        replay_of=record.replay_of or "",
        replay_until_at_ms=record.replay_until_at_ms,
        worker=storable(record.worker or "")[:255],
        epoch=record.epoch,
        bytes=len(payload) + len(words) + len(traceback) + len(message),
    )


def enforce_bounds(queue: str, policy: dict[str, Any]) -> int:
    """Drops held jobs beyond the queue's bounds, and writes down how many; how many."""
    max_count, max_bytes = policy.get("quarantine_max_count"), policy.get("quarantine_max_bytes")
    if max_count is None and max_bytes is None:
        return 0
    held = QuarantinedJob.objects.filter(queue=queue, state=QuarantinedJob.HELD)
    sums = held.order_by().aggregate(count=Count("*"), bytes=Sum("bytes"))
    if (max_count is None or sums["count"] <= max_count) and (
        max_bytes is None or (sums["bytes"] or 0) <= max_bytes
    ):
        return 0  # the usual case, and it reads no row
    dropped = choose_dropped(
        [Held(*row) for row in held.order_by().values_list("pk", "quarantined_at_ms", "bytes")],
        max_count=max_count,
        max_bytes=max_bytes,
        on_full=str(policy.get("on_quarantine_full") or "drop_oldest"),
    )
    return drop(queue, dropped, why=str(policy.get("on_quarantine_full") or "drop_oldest"))


def drop(queue: str, keys: Iterable[int], *, why: str) -> int:
    keys = list(keys)
    if not keys:
        return 0
    with transaction.atomic():
        for start in range(0, len(keys), 500):
            QuarantinedJob.objects.filter(
                pk__in=keys[start : start + 500], state=QuarantinedJob.HELD
            ).delete()
        is_new = note_dropped(queue, len(keys), why)
    if is_new:
        log.warning("%d quarantined jobs of %s dropped: %s", len(keys), queue, why)
    return len(keys)


def note_dropped(queue: str, count: int, why: str) -> bool:
    """Adds to the entry of the last minutes, or makes one; whether it made one.

    A quarantine that stays full drops jobs at each step: an entry each would be a hundred thousand a day.
    """
    about = {
        "actor": "monitor",
        "verb": "drop_quarantined",
        "target": queue[:300],
        "reason": f"the quarantine of {queue} is at its bound: {why}",
    }
    since = timezone.now() - timedelta(seconds=ONE_ENTRY_S)
    entry = JournalEntry.objects.filter(**about, at__gte=since).order_by("-pk").first()
    if entry is None:
        JournalEntry.objects.create(
            **about, role="admin", via="monitor", after={"dropped": count}, outcome="done"
        )
        return True
    entry.after = {"dropped": int((entry.after or {}).get("dropped", 0)) + count}
    entry.save(update_fields=["after"])
    return False

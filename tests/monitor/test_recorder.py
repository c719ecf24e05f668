"""Does every quarantined job reach the database, once, whatever is away meanwhile?"""

from __future__ import annotations

import base64
import dataclasses
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from tests.monitor.conftest import Sampled, fail_jobs, fail_waiting, make_offer
from workers.exceptions import StoreUnavailable
from workers.loops.database_health import DatabaseHealth
from workers.loops.frame.inputs import DatabaseFacts
from workers.loops.recorder import ONE_ENTRY_S, Recorder, enforce_bounds
from workers.models import JournalEntry, QuarantinedJob
from workers.store import Settlement, Store

pytestmark = pytest.mark.database


def test_a_failed_job_is_copied_with_its_cause_and_then_forgotten(gate: Store) -> None:
    fail_jobs(gate, 3)
    recorder = Recorder(gate)
    assert recorder.tick() is True
    assert gate.snapshot()["quarantine_spool"]["count"] == 0
    row = QuarantinedJob.objects.get(op_id="job-1")
    assert (row.error_type, row.reason, row.state, row.task) == (
        "DrillFailed",
        "failed",
        "held",
        "drill.fail",
    )
    assert row.args_text == '{"args": ["redacted"], "kwargs": {}}'
    assert row.times["committed_at_ms"] == row.quarantined_at_ms
    assert QuarantinedJob.objects.values("fingerprint").distinct().count() == 1
    assert recorder.tick() is False


def test_dying_between_copy_and_forgetting_copies_no_job_twice(gate: Store, monkeypatch: Any) -> None:
    fail_jobs(gate, 5)

    def die(ids: list[str]) -> int:
        raise StoreUnavailable("down")

    with monkeypatch.context() as patch:
        patch.setattr(gate, "forget_spooled", die)
        with pytest.raises(StoreUnavailable):
            Recorder(gate).tick()
    assert gate.snapshot()["quarantine_spool"]["count"] == 5
    Recorder(gate).tick()
    assert QuarantinedJob.objects.count() == 5
    assert gate.snapshot()["quarantine_spool"]["count"] == 0


def test_what_is_read_at_once_is_bounded_in_bytes(gate: Store, monkeypatch: Any) -> None:
    """A hundred payloads of a megabyte each would be read, held and written at once otherwise."""
    sizes = (1_000_000, 1_000_000, 1_000_000, 3_000_000, 6_000_000, 100)
    offers = [
        dataclasses.replace(make_offer(n), payload=b"x" * size, cost_ms=1) for n, size in enumerate(sizes)
    ]
    for offer in offers:
        assert gate.admit([offer])[0].accepted
        (job,) = gate.claim("w1@host", ["normal"], 1)
        error = {"type": "E", "message": "m", "traceback": "t"}
        gate.settle([Settlement(job.id, job.epoch, "failed", error=error)])
    read: list[list[int]] = []
    whole = gate.read_quarantine_spool

    def noted(*args: Any, **more: Any) -> Any:
        records = whole(*args, **more)
        read.append([len(record.payload) for record in records])
        return records

    monkeypatch.setattr(gate, "read_quarantine_spool", noted)
    recorder = Recorder(gate)
    while recorder.tick():
        pass
    # What does not fit waits for the next reading; what is larger than all of it comes alone.
    assert read == [[1_000_000] * 3, [3_000_000], [6_000_000], [100], []]
    assert QuarantinedJob.objects.count() == 6
    assert gate.snapshot()["quarantine_spool"]["count"] == 0


def test_a_database_that_is_away_loses_nothing(gate: Store, monkeypatch: Any) -> None:
    fail_jobs(gate, 5)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(QuarantinedJob.objects, "bulk_create", refuse)
        assert Recorder(gate).tick() is False
    assert gate.snapshot()["quarantine_spool"]["count"] == 5
    Recorder(gate).tick()
    assert QuarantinedJob.objects.count() == 5


#: What PostgreSQL itself answers with where a file cannot grow (SQLSTATE 53100).
NO_SPACE = """
CREATE FUNCTION no_space() RETURNS trigger AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END
$$ LANGUAGE plpgsql;
CREATE TRIGGER no_space BEFORE INSERT ON workers_quarantinedjob EXECUTE FUNCTION no_space();
"""


@contextmanager
def full_disk(room_bytes: int) -> Iterator[None]:
    """SQLite can store ``room_bytes`` more; PostgreSQL says of the quarantine's table that it cannot grow."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA page_count")
            cursor.execute(f"PRAGMA max_page_count = {cursor.fetchone()[0] + room_bytes // 4096}")
            yield
            cursor.execute("PRAGMA max_page_count = 1073741823")
        else:
            cursor.execute(NO_SPACE)
            yield
            cursor.execute("DROP FUNCTION no_space CASCADE")


@pytest.mark.django_db(transaction=True)
def test_a_full_database_loses_nothing_and_is_told(gate: Store) -> None:
    noise = base64.b64encode(random.Random(1).randbytes(6 << 20)).decode()
    payload = json.dumps({"b": noise, "h": {"task": "drill.fail"}, "p": {}}).encode()
    large = dataclasses.replace(make_offer(1), payload=payload)
    assert gate.admit([large])[0].accepted
    fail_waiting(gate)
    health = DatabaseHealth(gate.clock.now_ms)
    recorder = Recorder(gate, health)
    with full_disk(3 << 20):
        assert recorder.tick() is False
        told = health.current()
        assert told["state"] == "unwritable", told
        assert "full" in told["detail"] or "No space left" in told["detail"]
        assert gate.snapshot()["quarantine_spool"]["count"] == 1
        fail_jobs(gate, 3, first=10)  # the gate admits, hands out and settles
        found = Sampled(gate, DatabaseFacts(health=told)).latest()
        assert found is not None
        notice = next(notice for notice in found[0]["notices"] if notice["kind"] == "database")
        assert notice["since_at_ms"] == told["since_at_ms"]
        assert "4 quarantined jobs wait in Redis" in notice["text"]
    while recorder.tick():
        pass
    assert gate.snapshot()["quarantine_spool"]["count"] == 0
    assert QuarantinedJob.objects.count() == 4
    assert bytes(QuarantinedJob.objects.get(op_id="job-1").payload) == payload
    assert "recording" not in health._troubles


def test_a_job_that_the_database_takes_in_no_form_holds_up_none_of_the_others(
    gate: Store, monkeypatch: Any
) -> None:
    fail_jobs(gate, 3)
    records = gate.read_quarantine_spool(10)
    odd = [dataclasses.replace(r, deliveries=2**40) if r.id == "job-1" else r for r in records]
    monkeypatch.setattr(gate, "read_quarantine_spool", lambda limit: odd)
    assert Recorder(gate).tick() is True
    assert QuarantinedJob.objects.count() == 3
    assert gate.snapshot()["quarantine_spool"]["count"] == 0
    row = QuarantinedJob.objects.get(op_id="job-1")
    assert bytes(row.payload) == next(r.payload for r in records if r.id == "job-1")


def test_more_than_a_batch_asks_for_another_step(gate: Store) -> None:
    fail_jobs(gate, 120)
    recorder = Recorder(gate)
    assert recorder.tick() is True
    assert QuarantinedJob.objects.count() == 100
    assert recorder.tick() is True
    assert recorder.tick() is False
    assert QuarantinedJob.objects.count() == 120


def test_the_bounds_of_a_quarantine_hold_and_what_was_dropped_is_written_down(gate: Store) -> None:
    fail_jobs(gate, 6)
    Recorder(gate).tick()
    assert enforce_bounds("normal", {"quarantine_max_count": 4}) == 2
    assert QuarantinedJob.objects.count() == 4
    assert enforce_bounds("normal", {"quarantine_max_count": 4, "quarantine_max_bytes": 1}) == 4
    assert enforce_bounds("normal", {}) == 0
    entry = JournalEntry.objects.get(verb="drop_quarantined")  # one for all of the last minutes
    assert entry.after == {"dropped": 6}
    JournalEntry.objects.update(at=timezone.now() - timedelta(seconds=ONE_ENTRY_S + 1))
    fail_jobs(gate, 2, first=10)
    Recorder(gate).tick()
    assert enforce_bounds("normal", {"quarantine_max_count": 1}) == 1
    assert JournalEntry.objects.filter(verb="drop_quarantined").count() == 2


def test_raw_bytes_that_nobody_can_read_are_kept_as_they_came(gate: Store) -> None:
    gate.client.lpush("normal", b"\x80\x04not-json\x00")
    gate.hold_unreadable(
        "normal", b"\x80\x04not-json\x00", queue="normal", error_type="OfferError", message="not JSON\x00"
    )
    Recorder(gate).tick()
    row = QuarantinedJob.objects.get()
    assert bytes(row.payload) == b"\x80\x04not-json\x00"
    assert row.reason == "undecodable"
    assert "\x00" not in row.message

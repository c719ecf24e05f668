"""Does every quarantined job reach the database, once, whatever is away meanwhile?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from tests.monitor.conftest import fail_jobs
from workers.exceptions import StoreUnavailable
from workers.loops.recorder import Recorder, enforce_bounds
from workers.models import JournalEntry, QuarantinedJob
from workers.store import Store

pytestmark = pytest.mark.database


def test_a_failed_job_is_copied_with_its_cause_and_then_forgotten(gate: Store) -> None:
    fail_jobs(gate, 3)
    recorder = Recorder(gate)
    assert recorder.tick() is False
    assert gate.snapshot()["quarantine_spool"]["count"] == 0
    row = QuarantinedJob.objects.get(op_id="job-1")
    assert (row.error_type, row.reason, row.state, row.task) == (
        "DrillFailed",
        "failed",
        "held",
        "drill.fail",
    )
    assert row.args_text == '{"args": [1], "kwargs": {}}'
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


def test_more_than_a_batch_asks_for_another_step(gate: Store) -> None:
    fail_jobs(gate, 120)
    recorder = Recorder(gate)
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

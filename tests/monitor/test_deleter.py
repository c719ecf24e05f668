"""Is a person's data gone everywhere, also when the monitor dies half way, and is the receipt true?"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.engine import audit
from tests.monitor.conftest import fail_jobs, fail_waiting, make_offer
from workers.actions import delete_payloads
from workers.actions import replay as replay_action
from workers.actions.actor import Actor
from workers.loops import deleter as deleter_module
from workers.loops.deleter import Deleter
from workers.loops.recorder import Recorder
from workers.loops.replayer import settle as settle_item
from workers.models import Deletion, JournalEntry, QuarantinedJob, ReplayBatch, ReplayItem
from workers.store import Offer, Settlement, Store

ADMIN = Actor("root", "admin", "cli")
TAG = "person:alice"


class Died(BaseException):
    """What kill -9 looks like from inside."""


class DiesAfter:
    def __init__(self, survives: int, erase: Any) -> None:
        self.left, self.erase = survives, erase

    def __call__(self, receipt: str, ids: Any) -> Any:
        if self.left == 0:
            raise Died
        self.left -= 1
        return self.erase(receipt, ids)


def order(gate: Store, **what: Any) -> Deletion:
    given = {"tag": TAG, "tenant": None, "reason": "asked for", **what}
    return Deletion.objects.get(pk=delete_payloads.execute(ADMIN, store=gate, **given).target)


def tagged(number: int, **more: Any) -> Offer:
    return make_offer(number, tags=(TAG,), **more)


def run(gate: Store, deletion: Deletion, *, forgotten: list[str] | None = None, ticks: int = 20) -> Deletion:
    def forget(op_id: str) -> bool:
        first = forgotten is not None and op_id not in forgotten
        if forgotten is not None:
            forgotten.append(op_id)
        return first

    loop = Deleter(gate, forget=forget)
    for _ in range(ticks):
        loop.tick()
        deletion.refresh_from_db()
        if deletion.state == Deletion.DONE:
            break
    return deletion


def populate(gate: Store) -> None:
    """Alice's: one held, one failed and not recorded yet, one waiting, one delayed. And one of Bob."""
    gate.admit([tagged(1)])
    fail_waiting(gate)
    Recorder(gate).tick()
    gate.admit([tagged(2)])
    fail_waiting(gate)
    gate.admit([tagged(3), tagged(4, delay_ms=60_000), make_offer(5, tags=("person:bob",))])


def test_everything_of_a_tag_goes_and_the_receipt_says_so(gate: Store) -> None:
    populate(gate)
    forgotten: list[str] = []
    deletion = run(gate, order(gate), forgotten=forgotten)
    assert deletion.state == Deletion.DONE
    assert deletion.counts == {
        "settled": 1,
        "held": 1,
        "waiting": 1,
        "delayed": 1,
        "quarantine": 1,
        "results": 3,
    }
    assert (deletion.tag, deletion.tag_sha256) == ("", delete_payloads.digest(TAG))
    row = QuarantinedJob.objects.get(op_id="job-1")
    assert (row.state, bytes(row.payload), row.message, row.traceback, row.tags) == (
        "deleted",
        b"",
        "",
        "",
        [],
    )
    assert gate.read_operation("job-5").tags == ("person:bob",)  # type: ignore[union-attr]
    assert [job.id for job in gate.claim("w", ["normal"], 9)] == ["job-5"]
    for entry in JournalEntry.objects.filter(verb="delete_payloads"):
        assert TAG not in f"{entry.target} {entry.reason} {entry.after}"
    assert JournalEntry.objects.filter(verb="delete_payloads").count() == 2
    audit.check(gate)


def test_a_monitor_that_dies_half_way_is_gone_on_with(gate: Store, monkeypatch: Any) -> None:
    monkeypatch.setattr(deleter_module, "ERASED", 5)
    monkeypatch.setattr(deleter_module, "ROWS", 5)
    gate.admit([tagged(number) for number in range(20)])
    fail_waiting(gate)
    Recorder(gate).tick()
    gate.admit([tagged(number) for number in range(20, 60)])
    deletion = order(gate)

    for survives in (1, 3, 2):
        with monkeypatch.context() as patch:
            patch.setattr(gate, "erase", DiesAfter(survives, gate.erase))
            with pytest.raises(Died):
                run(gate, deletion)
    assert any(gate.read_payload(f"job-{n}") for n in range(20, 60))
    run(gate, deletion)
    assert deletion.state == Deletion.DONE
    assert (deletion.counts["waiting"], deletion.counts["quarantine"]) == (40, 20)
    assert not any(gate.read_payload(f"job-{n}") for n in range(60))
    assert not QuarantinedJob.objects.exclude(payload=b"").exists()
    audit.check(gate)


def test_what_ran_is_named_with_what_became_of_it(gate: Store) -> None:
    gate.admit([tagged(1), tagged(2)])
    jobs = gate.claim("w1@host", ["normal"], 2)
    deletion = run(gate, order(gate), ticks=4)
    assert deletion.state == Deletion.FINISHING
    assert {row["id"]: row["became"] for row in deletion.running} == {"job-1": None, "job-2": None}
    assert deletion.running[0]["worker"] == "w1@host"
    outcomes = ("succeeded", "failed")
    gate.settle([Settlement(j.id, j.epoch, o, run_ms=1) for j, o in zip(jobs, outcomes, strict=True)])
    Recorder(gate).tick()
    run(gate, deletion)
    assert {row["id"]: row["became"] for row in deletion.running} == {"job-1": "succeeded", "job-2": "failed"}
    assert deletion.state == Deletion.DONE and not QuarantinedJob.objects.exists()


def test_one_that_waits_for_a_long_job_holds_up_no_other(gate: Store) -> None:
    gate.admit([tagged(1)])
    gate.claim("w1@host", ["normal"], 1)
    first = run(gate, order(gate), ticks=4)
    gate.admit([make_offer(2, tags=("person:bob",))])
    second = run(gate, order(gate, tag="person:bob"))
    assert (first.state, second.state) == (Deletion.FINISHING, Deletion.DONE)


def test_a_tenants_deletion_takes_only_its_own(gate: Store) -> None:
    gate.admit([tagged(1, tenant="acme"), make_offer(2, tenant="acme"), tagged(3, tenant="other")])
    run(gate, order(gate, tag=None, tenant="acme"))
    assert [job.id for job in gate.claim("w", ["normal"], 9)] == ["job-3"]


def test_what_was_offered_after_it_was_ordered_is_not_meant(gate: Store) -> None:
    deletion = order(gate)
    Deletion.objects.filter(pk=deletion.pk).update(began_at_ms=deletion.began_at_ms - 1000)
    gate.admit([tagged(1)])
    deletion.refresh_from_db()
    run(gate, deletion)
    assert gate.read_payload("job-1") is not None


def test_a_replay_in_hand_is_stopped_and_one_that_went_through_is_found(gate: Store) -> None:
    gate.admit([tagged(1), tagged(2)])
    fail_waiting(gate)
    Recorder(gate).tick()
    result = replay_action.execute(ADMIN, now_ms=gate.clock.now_ms(), ids=["job-1", "job-2"], reason="r")
    batch = ReplayBatch.objects.get(pk=result.target)
    gone_through = batch.items.get(job__op_id="job-2")
    deletion = order(gate)
    gate.admit([tagged(7, replay_of="job-2")])  # the replayer was quicker
    settle_item(batch, gone_through, ReplayItem.DONE, new_id="job-7")
    run(gate, deletion)
    assert batch.items.get(job__op_id="job-1").state == ReplayItem.SKIPPED
    assert set(QuarantinedJob.objects.values_list("state", flat=True)) == {"deleted"}
    assert gate.read_operation("job-7").status == "cancelled"  # type: ignore[union-attr]


def test_a_row_that_is_recorded_late_is_found_by_the_next_pass(gate: Store) -> None:
    fail_jobs(gate, 1)
    record = gate.read_quarantine_spool(10)[0]
    gate.forget_spooled([record.id])
    deletion = order(gate, tag=None, tenant="default")
    loop = Deleter(gate, forget=lambda op_id: False)
    loop.tick()  # a pass that finds its record
    from workers.loops.recorder import to_row

    to_row(record).save()
    for _ in range(5):
        loop.tick()
    assert QuarantinedJob.objects.get().state == "deleted"
    deletion.refresh_from_db()
    assert deletion.state == Deletion.DONE


def test_a_replay_id_of_a_deleted_job_is_never_offered(gate: Store) -> None:
    gate.admit([tagged(1)])
    fail_waiting(gate)
    Recorder(gate).tick()
    run(gate, order(gate))
    result = replay_action.execute(ADMIN, now_ms=gate.clock.now_ms(), ids=["job-1"], reason="r")
    assert ReplayBatch.objects.get(pk=uuid.UUID(result.target)).total == 1
    assert not ReplayItem.objects.filter(state=ReplayItem.PENDING).exists()

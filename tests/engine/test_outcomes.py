"""Does a full queue do what its policy declares, and does a key keep its order?"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from workers.store import Offer, Settlement, Store

from . import audit


def offer(queue: str = "normal", **facts: Any) -> Offer:
    given = {"id": str(uuid.uuid4()), "task": "t", "queue": queue, "payload": b"x" * 10, "cost_ms": 100}
    return Offer(**{**given, **facts})


def status(store: Store, op_id: str) -> str:
    operation = store.read_operation(op_id)
    assert operation is not None
    return operation.status


def finish(store: Store, outcome: str = "succeeded", **facts: Any) -> str:
    job = store.claim("w", ["normal"], 1)[0]
    store.settle([Settlement(job.id, job.epoch, outcome, **facts)])
    return job.id


def test_drop_oldest_makes_room_and_says_what_it_shed(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 2, "on_full": "drop_oldest"}, version=2)
    first, second, third = (offer() for _ in range(3))
    assert all(store.admit([o])[0].accepted for o in (first, second, third))
    assert [status(store, o.id) for o in (first, second, third)] == ["shed", "pending", "pending"]
    totals = audit.totals(store, "normal")
    assert (totals["accepted"], totals["shed"], totals["depth"]) == (3, 1, 2)


@pytest.mark.parametrize("on_full", ["drop_newest", "sample"])
def test_what_is_dropped_in_silence_is_no_error_and_counts_as_refused(store: Store, on_full: str) -> None:
    store.publish_policy("normal", {"max_count": 1, "on_full": on_full, "high_mark": 1.0}, version=2)
    store.admit([offer()])
    verdict = store.admit([offer()])[0]
    assert (verdict.accepted, verdict.status, verdict.reason) == (True, "shed", "count")
    totals = audit.totals(store, "normal")
    assert (totals["offered"], totals["accepted"], totals["refused"], totals["refused:count"]) == (2, 1, 1, 1)


def test_sampling_lets_about_its_share_in_over_the_high_mark(store: Store) -> None:
    fields = {"max_count": 2000, "on_full": "sample", "high_mark": 0.05, "sample_rate": 0.25}
    store.publish_policy("normal", fields, version=2)
    verdicts = store.admit([offer() for _ in range(1100)])
    let_in = sum(v.status != "shed" for v in verdicts[100:])
    assert 190 <= let_in <= 310  # 250 of 1,000, four standard deviations


def test_the_newer_state_of_a_key_replaces_the_one_that_waits(store: Store) -> None:
    old, other, new = offer(coalesce_key="k"), offer(), offer(coalesce_key="k")
    for o in (old, other, new):
        store.admit([o])
    assert status(store, old.id) == "superseded"
    operation = store.read_operation(old.id)
    assert operation is not None
    assert operation.superseded_by == new.id
    # It has the place, so a key that is written without rest still gets its turn.
    assert [finish(store), finish(store)] == [new.id, other.id]


def test_a_key_whose_job_runs_or_has_ended_swallows_nothing(store: Store) -> None:
    running = offer(coalesce_key="k")
    store.admit([running])
    job = store.claim("w", ["normal"], 1)[0]
    beside = offer(coalesce_key="k")
    store.admit([beside])
    assert (status(store, running.id), status(store, beside.id)) == ("pending", "pending")
    store.settle(
        [Settlement(job.id, job.epoch, "failed", error={"type": "E", "message": "", "traceback": ""})]
    )
    assert finish(store) == beside.id
    again = offer(coalesce_key="k")
    store.admit([again])
    assert finish(store) == again.id


def test_a_queue_of_additive_work_can_forbid_coalescing(store: Store) -> None:
    store.publish_policy("normal", {"may_coalesce": False}, version=2)
    verdict = store.admit([offer(coalesce_key="k")])[0]
    assert (verdict.accepted, verdict.reason) == (False, "coalescing")
    assert all(v.accepted for v in store.admit([offer(), offer()]))


def test_a_replacement_needs_no_room_of_its_own(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)
    store.admit([offer(coalesce_key="k")])
    assert store.admit([offer(coalesce_key="k")])[0].accepted
    assert not store.admit([offer(coalesce_key="other")])[0].accepted


def test_jobs_of_one_key_run_one_at_a_time_over_retries_and_others_pass(store: Store) -> None:
    a, b, c = (offer(ordering_key="account") for _ in range(3))
    free = offer(ordering_key="another")
    for o in (a, b, c, free):
        store.admit([o])
    operation = store.read_operation(b.id)
    assert operation is not None
    assert operation.phase == "blocked"
    first = store.claim("w", ["normal"], 5)
    assert [job.id for job in first] == [a.id, free.id]
    # A fails once: its retry goes before B.
    store.admit([Offer(id=a.id, task="t", queue="normal", payload=b"again", retries=1)])
    assert store.settle([Settlement(first[0].id, first[0].epoch, "retry")]) == ["retried"]
    store.settle([Settlement(first[1].id, first[1].epoch, "succeeded")])
    assert [finish(store) for _ in range(3)] == [a.id, b.id, c.id]
    assert store.claim("w", ["normal"], 1) == []


def test_a_key_goes_on_when_its_first_is_cancelled_or_fails_for_good(store: Store) -> None:
    a, b, c = (offer(ordering_key="k") for _ in range(3))
    for o in (a, b, c):
        store.admit([o])
    store.cancel(b.id, by="t")
    store.cancel(a.id, by="t")
    assert finish(store, "failed", error={"type": "E", "message": "", "traceback": ""}) == c.id
    d = offer(ordering_key="k")
    store.admit([d])
    assert finish(store) == d.id


def test_a_blocked_job_is_counted_as_waiting_and_can_be_purged(store: Store) -> None:
    for _ in range(3):
        store.admit([offer(ordering_key="k")])
    assert store.size("normal") == 3
    assert store.purge("normal", by="t") == 3
    assert store.size("normal") == 0


def test_a_stale_source_sequence_is_refused_as_duplicate(store: Store) -> None:
    assert store.admit([offer(ordering_key="k", source_sequence=5)])[0].accepted
    verdict = store.admit([offer(ordering_key="k", source_sequence=5)])[0]
    assert (verdict.accepted, verdict.reason) == (False, "duplicate")
    assert store.admit([offer(ordering_key="k", source_sequence=6)])[0].accepted
    assert store.admit([offer(ordering_key="other", source_sequence=1)])[0].accepted


def test_an_older_epoch_may_not_write_after_a_newer_one(store: Store) -> None:
    assert store.fence("account/7", 100)
    assert store.fence("account/7", 101)
    assert not store.fence("account/7", 100)
    assert store.fence("account/8", 100)


def test_slots_kept_for_a_class_stay_free_for_it(store: Store) -> None:
    store.publish_policy("critical", {"strict_rank": 0, "reserved_slots": 1}, version=2)
    store.write_crews([{"queues": ["critical", "bulk"], "slots": 3}])
    for _ in range(5):
        store.admit([offer("bulk")])
    assert len(store.claim("w", ["critical", "bulk"], 5)) == 2
    store.admit([offer("critical")])
    assert [job.queue for job in store.claim("w", ["critical", "bulk"], 1)] == ["critical"]


def test_the_last_slot_is_kept_for_nobody(store: Store) -> None:
    store.publish_policy("critical", {"strict_rank": 0, "reserved_slots": 4}, version=2)
    for slots, others in ((1, 1), (2, 1), (5, 1), (6, 2)):
        store.write_crews([{"queues": ["critical", "bulk"], "slots": slots}])
        for _ in range(3):
            store.admit([offer("bulk")])
        jobs = store.claim("w", ["critical", "bulk"], slots)
        assert [job.queue for job in jobs] == ["bulk"] * others, slots
        store.settle([Settlement(job.id, job.epoch, "succeeded") for job in jobs])


def test_slots_of_workers_that_serve_neither_keep_none_free(store: Store) -> None:
    store.publish_policy("critical", {"strict_rank": 0, "reserved_slots": 1}, version=2)
    store.write_crews([{"queues": ["critical", "bulk"], "slots": 3}, {"queues": ["normal"], "slots": 9}])
    for _ in range(5):
        store.admit([offer("bulk")])
    assert len(store.claim("w", ["critical", "bulk"], 5)) == 2


def test_newest_first_sheds_a_tail_past_its_ceiling(store: Store) -> None:
    store.publish_policy("normal", {"order": "lifo", "age_ceiling_s": 0.05}, version=2)
    old = offer()
    store.admit([old])
    store.set_mode("normal", "saturated", by="t", reason="t")
    operation = store.read_operation(old.id)
    assert operation is not None
    while store.clock.now_ms() < (operation.times["accepted_at_ms"] or 0) + 80:
        store.size("normal")
    new, newer = offer(), offer()
    for o in (new, newer):
        store.admit([o])
    assert finish(store) == newer.id
    assert status(store, old.id) == "shed"

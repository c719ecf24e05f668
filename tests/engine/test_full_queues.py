"""Where does an offer go that a full queue degrades, spills or drops, and does all of it come to an end?"""

from __future__ import annotations

import uuid
from typing import Any

import msgpack
import pytest

from workers.store import Offer, Settlement, Store, scripts

from . import audit
from .test_outcomes import finish, offer, status

DEGRADE = {"max_count": 4, "on_full": "degrade", "degrade_to": "cheap"}
SPILL = {"max_count": 4, "on_full": "spill", "spill_max_count": 6, "low_mark": 0.5, "high_mark": 1.0}


def admit(store: Store, number: int, **facts: Any) -> list[Any]:
    return [store.admit([offer(**facts)])[0] for _ in range(number)]


def phases(store: Store, ids: list[str]) -> list[str]:
    found = [store.read_operation(op_id) for op_id in ids]
    return [(o.phase or o.status) if o else "unknown" for o in found]


def forget_cost(store: Store) -> None:
    """What a deleted record cost is not known any more; the audit is to find the rest in order."""
    for key in ("totals:normal", "tenant:normal|default"):
        numbers = scripts.unpack(store.client.get(store.root + key))
        store.client.set(store.root + key, msgpack.packb({**numbers, "cost_ms": 0}))


# degrade


def test_a_full_queue_takes_the_cheaper_task_in_its_place_within_its_reserve(store: Store) -> None:
    store.publish_policy("normal", {**DEGRADE, "degrade_reserve": 0.5}, version=2)
    verdicts = admit(store, 8, cost_ms=900)
    assert [v.accepted for v in verdicts] == [True] * 6 + [False] * 2
    assert [v.degraded_from is not None for v in verdicts] == [False] * 4 + [True] * 2 + [False] * 2
    assert verdicts[4].degraded_from == {"task": "t", "queue": "normal", "reason": "count"}
    assert (verdicts[6].reason, verdicts[6].figures) == ("count", {"value": 7, "bound": 4})
    operation = store.read_operation(verdicts[4].id)
    assert operation is not None
    assert (operation.task, operation.queue, operation.cost_ms) == ("cheap", "normal", 100)
    assert operation.degraded_from == verdicts[4].degraded_from
    totals = audit.totals(store, "normal")
    assert (totals["offered"], totals["accepted"], totals["degraded"]) == (8, 6, 2)
    claimed = store.claim("w", ["normal"], 6)
    assert [job.task for job in claimed] == ["t"] * 4 + ["cheap"] * 2


def test_what_is_degraded_to_another_queue_stands_within_that_ones_bounds(store: Store) -> None:
    store.publish_policy("normal", {**DEGRADE, "degrade_queue": "bulk"}, version=2)
    store.publish_policy("bulk", {"max_count": 1}, version=2)
    verdicts = admit(store, 6)
    assert [(v.accepted, v.queue) for v in verdicts[3:]] == [
        (True, "normal"),
        (True, "bulk"),
        (False, "normal"),
    ]
    # A key keeps its order and its newest state within one queue.
    store.publish_policy("bulk", {"max_count": 9}, version=3)
    assert not store.admit([offer(ordering_key="k")])[0].accepted
    assert store.admit([offer()])[0].queue == "bulk"
    assert (audit.totals(store, "normal")["degraded"], audit.totals(store, "bulk")["accepted"]) == (2, 2)


def test_a_refused_canvas_counts_where_it_was_offered(store: Store) -> None:
    store.publish_policy("normal", {**DEGRADE, "max_count": 1, "degrade_queue": "bulk"}, version=2)
    store.publish_policy("bulk", {"max_count": 1}, version=2)
    verdicts = store.admit([offer() for _ in range(3)], whole=True)
    assert {(v.accepted, v.queue, v.reason) for v in verdicts} == {(False, "normal", "count")}
    assert audit.totals(store, "bulk").get("offered", 0) == 0


# spill


def test_the_spill_holds_what_has_no_room_and_lets_it_in_in_order(store: Store) -> None:
    store.publish_policy("normal", SPILL, version=2)
    verdicts = admit(store, 11)
    ids = [v.id for v in verdicts]
    assert [v.accepted for v in verdicts] == [True] * 10 + [False]
    assert phases(store, ids[:10]) == ["waiting"] * 4 + ["spilled"] * 6
    queue = store.snapshot()["queues"]["normal"]
    assert (queue["depth"], queue["delayed"], queue["spilled"], queue["spilled_bytes"]) == (4, 6, 6, 60)
    assert queue["bytes"] == 40
    assert queue["spill_oldest_at_ms"] is not None
    store.reap(queues=["normal"])
    assert store.snapshot()["queues"]["normal"]["spilled"] == 6  # not under its low mark yet
    done = [finish(store) for _ in range(10)]
    assert done == ids[:10]
    totals = audit.totals(store, "normal")
    assert (totals["offered"], totals["accepted"], totals["succeeded"]) == (11, 10, 10)


def test_a_new_offer_stands_behind_its_tenants_spilled_ones_and_not_behind_anothers(store: Store) -> None:
    store.publish_policy("normal", {**SPILL, "tenant_share": 0.75}, version=2)
    admit(store, 1, tenant="b")
    a = [v.id for v in admit(store, 7, tenant="a")]
    assert phases(store, a) == ["waiting"] * 3 + ["spilled"] * 4
    assert not store.admit([offer(tenant="a")])[0].accepted  # its share of the spill is full too
    b = admit(store, 1, tenant="b")[0]
    assert b.phase == "spilled"
    store.cancel(a[0], by="t")
    assert admit(store, 1, tenant="c")[0].phase == "waiting"
    for _ in range(4):
        finish(store)
    assert finish(store) in (a[3], b.id)
    assert finish(store) in (a[3], b.id)  # tenants take turns


def test_a_spilled_job_can_be_cancelled_purged_and_grows_too_old(store: Store) -> None:
    store.publish_policy("normal", SPILL, version=2)
    ids = [v.id for v in admit(store, 8)]
    assert store.cancel(ids[4], by="t").result == "cancelled"
    store.publish_policy("normal", {**SPILL, "spill_max_age_s": 0.05}, version=3)
    operation = store.read_operation(ids[5])
    assert operation is not None
    while store.clock.now_ms() <= (operation.times["accepted_at_ms"] or 0) + 120:
        store.size("normal")
    store.reap(queues=["normal"])
    assert [status(store, i) for i in ids[4:]] == ["cancelled", "expired", "expired", "expired"]
    store.publish_policy("normal", SPILL, version=4)
    admit(store, 2)
    assert store.purge("normal", by="t") == 6


def test_a_delay_a_deadline_and_a_key_are_kept_through_the_spill(store: Store) -> None:
    store.publish_policy("normal", SPILL, version=2)
    first = [v.id for v in admit(store, 4)]
    late = offer(deadline_ms=60)
    later, one, two = offer(delay_ms=3_600_000), offer(ordering_key="k"), offer(ordering_key="k")
    newer = offer(coalesce_key="c"), offer(coalesce_key="c")
    for o in (late, later, one, two, *newer):
        assert store.admit([o])[0].phase == "spilled"
    assert status(store, newer[0].id) == "superseded"
    operation = store.read_operation(late.id)
    assert operation is not None
    while store.clock.now_ms() <= (operation.deadline_at_ms or 0):
        store.size("normal")
    for op_id in first:
        store.cancel(op_id, by="t")
    store.reap(queues=["normal"])
    assert phases(store, [late.id, later.id, one.id, two.id]) == ["expired", "delayed", "waiting", "blocked"]
    assert [finish(store) for _ in range(3)] == [one.id, two.id, newer[1].id]


def test_a_policy_that_spills_no_more_lets_in_what_is_spilled(store: Store) -> None:
    store.publish_policy("normal", SPILL, version=2)
    ids = [v.id for v in admit(store, 6)]
    store.publish_policy("normal", {"max_count": 100}, version=3)
    store.set_mode("normal", "draining", by="o", reason="t")
    assert [finish(store) for _ in range(6)] == ids


# what is dropped without an error


@pytest.mark.parametrize("on_full", ["drop_newest", "sample"])
def test_who_submitted_what_was_dropped_can_see_it(store: Store, on_full: str) -> None:
    store.publish_policy("normal", {"max_count": 1, "on_full": on_full, "high_mark": 1.0}, version=2)
    dropped = admit(store, 2)[1]
    operation = store.read_operation(dropped.id)
    assert operation is not None
    assert (operation.status, operation.refused_by, operation.queue) == ("shed", "count", "normal")
    assert audit.totals(store, "normal").get("shed", 0) == 0  # it was refused, not shed after acceptance
    store.write_settings({"retention_s": 0.001})
    while store.sweep(["normal"]) == 0:
        pass
    assert store.read_operation(dropped.id) is None


def test_only_the_newest_ten_thousand_dropped_are_remembered(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1, "on_full": "drop_newest"}, version=2)
    ids = [str(uuid.uuid4()) for _ in range(10_040)]
    for start in range(0, len(ids), 1000):
        store.admit([offer(id=op_id) for op_id in ids[start : start + 1000]])
    assert store.client.zcard(store.root + "dropped:at") == 10_000


# the promise


def test_the_completion_promise_is_counted_as_it_stood_at_acceptance(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 40, "objective_s": 60}, version=2)
    admit(store, 2)
    late = admit(store, 1)[0]
    called_off = admit(store, 1)[0]
    store.cancel(called_off.id, by="t")
    finish(store)
    finish(store, "failed", error={"type": "E", "message": "", "traceback": ""})
    raw = audit.records(store)[late.id]
    raw["ob"] = 1
    store.client.hset(store.root + "ops", late.id, msgpack.packb(raw))
    finish(store)
    store.publish_policy("normal", {"max_count": 40}, version=3)
    admit(store, 1)
    finish(store)
    totals = audit.totals(store, "normal")
    assert (totals["succeeded"], totals["promised"], totals["in_objective"]) == (3, 3, 1)


# seams


def test_a_claimed_retry_of_an_unknown_id_passes_no_bound(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 2}, version=2)
    ids = [v.id for v in admit(store, 2)]
    assert not store.admit([offer(retries=3)])[0].accepted
    assert not store.admit([offer(retries=1, parent=ids[0])])[0].accepted  # it waits: no task published this
    store.claim("w", ["normal"], 1)
    admit(store, 1)
    replacement = store.admit([offer(retries=1, parent=ids[0])])[0]
    assert replacement.accepted
    assert audit.totals(store, "normal")["over_bound"] == 1


def test_what_a_worker_gives_back_above_a_bound_is_counted(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 2}, version=2)
    admit(store, 2)
    job = store.claim("w", ["normal"], 1)[0]
    admit(store, 1)
    store.settle([Settlement(job.id, job.epoch, "released")])
    totals = audit.totals(store, "normal")
    assert (totals["depth"], totals["over_bound"]) == (3, 1)


def test_a_job_that_its_task_always_puts_back_ends_in_quarantine(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 2, "max_deliveries": 3}, version=2)
    op_id = admit(store, 1)[0].id
    for _ in range(3):
        finish(store, "requeued")
    operation = store.read_operation(op_id)
    assert operation is not None
    assert (operation.status, operation.quarantine_reason, operation.deliveries) == ("failed", "rejected", 3)


def test_a_key_goes_on_when_the_record_of_its_first_job_is_deleted(store: Store) -> None:
    first, second, third = (offer(ordering_key="k") for _ in range(3))
    for o in (first, second, third):
        store.admit([o])
    store.client.hdel(store.root + "ops", first.id)
    assert store.claim("w", ["normal"], 1) == []  # counted as lost; whose key it was is not known any more
    assert phases(store, [second.id]) == ["blocked"]
    store.sweep(["normal"])
    assert [finish(store), finish(store)] == [second.id, third.id]
    forget_cost(store)


def test_a_parked_job_whose_record_is_deleted_is_counted_as_lost(store: Store) -> None:
    first, second, third = (offer(ordering_key="k", cost_ms=1) for _ in range(3))
    for o in (first, second, third):
        store.admit([o])
    store.client.hdel(store.root + "ops", second.id)
    assert [finish(store), finish(store)] == [first.id, third.id]
    totals = audit.totals(store, "normal")
    assert (totals["lost"], totals["depth"], totals["bytes"]) == (1, 0, 0)
    forget_cost(store)


def test_the_keys_that_hold_work_back_are_told_with_their_holder(store: Store) -> None:
    jobs = [offer(ordering_key="a|b", tenant="x|y") for _ in range(3)] + [offer(ordering_key="free")]
    for o in jobs:
        store.admit([o])
    queue = store.snapshot()["queues"]["normal"]
    assert queue["blocked_keys_known"] == 1
    row = queue["blocked_keys"][0]
    assert (row["tenant"], row["key"], row["waiting"]) == ("x|y", "a|b", 2)
    assert (row["holder"], row["holder_state"], row["holder_epoch"]) == (jobs[0].id, "waiting", None)
    assert row["oldest_at_ms"] == store.read_operation(jobs[1].id).times["accepted_at_ms"]  # type: ignore[union-attr]
    claimed = next(job for job in store.claim("w1", ["normal"], 2) if job.id == jobs[0].id)
    row = store.snapshot()["queues"]["normal"]["blocked_keys"][0]
    assert (row["holder_state"], row["holder_epoch"], row["holder_worker"]) == (
        "leased",
        claimed.epoch,
        "w1",
    )


def test_a_deadline_that_cannot_be_met_is_refused_with_both_figures(store: Store) -> None:
    store.publish_model("normal", {"service_rate_per_s": 1.0, "work_rate": 1000.0, "seconds_to_drain": 12.0})
    verdict = store.admit([Offer(str(uuid.uuid4()), "t", "normal", b"x", deadline_ms=5_000)])[0]
    assert (verdict.accepted, verdict.reason) == (False, "deadline")
    assert verdict.figures == {"value": 12_000, "bound": 5_000}
    assert store.admit([offer(deadline_ms=30_000)])[0].accepted


def test_what_is_delayed_past_its_deadline_is_refused_at_the_door(store: Store) -> None:
    """A Celery producer's countdown and expires: it could only ever expire."""
    for delay_ms in (5_000, 5_001, 60_000):
        refused = store.admit([offer(deadline_ms=5_000, delay_ms=delay_ms)])[0]
        assert (refused.accepted, refused.reason) == (False, "deadline")
        assert refused.figures == {"value": delay_ms, "bound": 5_000}
    assert store.admit([offer(deadline_ms=5_000, delay_ms=4_999)])[0].accepted


def test_a_spilled_job_whose_data_is_deleted_ends_and_leaves_nothing(store: Store) -> None:
    store.publish_policy("normal", SPILL, version=2)
    ids = [v.id for v in admit(store, 6)]
    assert [row.place for row in store.erase("receipt", [ids[5]])] == ["spilled"]
    assert status(store, ids[5]) == "cancelled"
    assert store.read_payload(ids[5]) is None

"""What becomes of a job between its claim and its end, whoever dies on the way?"""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from tests.support.waiting import wait_until
from workers.limits.downstream import Downstream
from workers.store import Claimed, Offer, Settlement, Store, keys
from workers.transport.holdings import BEATS_PER_SWEEP, Holdings

from . import audit
from .test_admission import an_offer, make_older

ERROR = {"type": "ValueError", "message": "no", "traceback": "Traceback"}


def put_in_flight(store: Store, **facts: Any) -> Claimed:
    store.admit([an_offer(**facts)])
    return store.claim("w", [facts.get("queue", "normal")])[0]


def run_out(store: Store, op_id: str) -> None:
    store.client.zadd(store.root + "leases", {op_id: 1})


def status_of(store: Store, op_id: str) -> str:
    operation = store.read_operation(op_id)
    assert operation is not None
    return operation.status


def test_a_claimed_job_is_reserved_then_running_then_done(store: Store) -> None:
    job = put_in_flight(store)
    reserved = store.read_operation(job.id)
    assert reserved is not None
    assert (reserved.status, reserved.phase, reserved.attempts) == ("pending", "reserved", 0)
    started = store.clock.now_ms()
    store.renew("w", None, [(job.id, job.epoch, started)])
    running = store.read_operation(job.id)
    assert running is not None
    assert (running.status, running.attempts) == ("running", 1)
    word = store.settle([Settlement(job.id, job.epoch, "succeeded", started, 5, result_repr="42")])
    assert word == ["settled"]
    done = store.read_operation(job.id)
    assert done is not None
    assert (done.status, done.result_repr) == ("succeeded", "42")
    times = [
        done.times[f"{name}_at_ms"] for name in ("offered", "accepted", "enqueued", "started", "committed")
    ]
    assert all(t is not None for t in times)
    assert times == sorted(t or 0 for t in times)
    assert store.read_payload(job.id) is None


def test_what_a_dead_worker_held_comes_back_with_its_age(store: Store) -> None:
    first, second = an_offer(), an_offer()
    store.admit([first, second])
    make_older(store, first.id, 5_000)
    job = store.claim("w", ["normal"])[0]
    run_out(store, job.id)
    assert [row["id"] for row in store.reap()] == [job.id]
    again = store.claim("w2", ["normal"])[0]
    assert again.id == job.id == first.id
    assert again.epoch > job.epoch
    assert again.deliveries == 2
    operation = store.read_operation(job.id)
    assert operation is not None
    assert operation.lost_count == 1


def test_a_lease_that_is_renewed_is_not_taken(store: Store) -> None:
    job = put_in_flight(store)
    run_out(store, job.id)
    store.renew("w", None, [(job.id, job.epoch, None)])
    assert store.reap() == []


def test_a_stale_holder_can_change_nothing(store: Store) -> None:
    job = put_in_flight(store)
    run_out(store, job.id)
    store.reap()
    assert store.settle([Settlement(job.id, job.epoch, "succeeded")]) == ["stale"]
    again = store.claim("w2", ["normal"])[0]
    assert store.settle([Settlement(job.id, job.epoch, "failed", error=ERROR)]) == ["stale"]
    assert store.renew("w", None, [(job.id, job.epoch, None)]) == ([job.id], [])
    assert store.settle([Settlement(again.id, again.epoch, "succeeded")]) == ["settled"]
    assert store.settle([Settlement(again.id, again.epoch, "failed", error=ERROR)]) == ["stale"]
    assert status_of(store, job.id) == "succeeded"


def test_a_job_that_kills_its_worker_ends_in_quarantine(store: Store) -> None:
    store.admit([an_offer()])
    for _ in range(3):
        job = store.claim("w", ["normal"])[0]
        run_out(store, job.id)
        store.reap()
    assert store.claim("w", ["normal"]) == []
    record = store.read_quarantine_spool()[0]
    assert (record.id, record.reason, record.deliveries) == (job.id, "worker_lost", 3)
    assert status_of(store, job.id) == "failed"


def test_max_deliveries_of_the_policy_holds(store: Store) -> None:
    store.publish_policy("normal", {"max_deliveries": 1}, version=2)
    job = put_in_flight(store)
    run_out(store, job.id)
    assert store.reap()[0]["state"] == "failed"


def test_what_was_given_back_unstarted_does_not_count_as_a_delivery(store: Store) -> None:
    store.admit([an_offer()])
    for _ in range(10):
        job = store.claim("w", ["normal"])[0]
        assert job.deliveries == 1
        assert store.settle([Settlement(job.id, job.epoch, "released")]) == ["returned"]


def test_a_failed_job_is_held_with_its_bytes_until_it_is_recorded(store: Store) -> None:
    job = put_in_flight(store, payload=b"\x00\xffraw")
    store.settle([Settlement(job.id, job.epoch, "failed", error=ERROR)])
    record = store.read_quarantine_spool()[0]
    assert (record.reason, record.error_type, record.message) == ("failed", "ValueError", "no")
    assert record.payload == b"\x00\xffraw"
    assert store.forget_spooled([job.id]) == 1
    assert store.read_quarantine_spool() == []
    assert store.read_payload(job.id) is None


def test_a_retry_is_the_same_operation_later(store: Store) -> None:
    offer = an_offer()
    store.admit([offer])
    job = store.claim("w", ["normal"])[0]
    retry = Offer(offer.id, "t", "normal", b"second", retries=1, delay_ms=600_000)
    assert store.admit([retry])[0].accepted
    assert status_of(store, offer.id) == "pending"
    assert store.settle([Settlement(job.id, job.epoch, "retry", error=ERROR)]) == ["retried"]
    operation = store.read_operation(offer.id)
    assert operation is not None
    assert (operation.status, operation.phase) == ("pending", "delayed")
    assert operation.due_at_ms is not None
    assert operation.due_at_ms - store.clock.now_ms() > 500_000
    row = audit.totals(store, "normal")
    assert (row["accepted"], row["retried"]) == (1, 1)


def test_a_retry_whose_worker_dies_before_it_settles_runs_once(store: Store) -> None:
    offer = an_offer()
    store.admit([offer])
    job = store.claim("w", ["normal"])[0]
    store.admit([Offer(offer.id, "t", "normal", b"second", retries=1)])
    run_out(store, job.id)
    store.reap()
    again = store.claim("w2", ["normal"], 5)
    assert [(j.id, j.payload) for j in again] == [(offer.id, b"second")]


def test_a_retry_is_taken_into_a_full_queue(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)
    job = put_in_flight(store)
    store.admit([an_offer()])
    assert store.admit([Offer(job.id, "t", "normal", b"r", retries=1)])[0].accepted
    assert store.settle([Settlement(job.id, job.epoch, "retry")]) == ["retried"]
    assert store.size("normal") == 2


def test_cancelling_before_the_start_means_never(store: Store) -> None:
    waiting, delayed = an_offer(), an_offer(delay_ms=3_600_000)
    store.admit([waiting, delayed])
    for offer in (waiting, delayed):
        assert store.cancel(offer.id, by="o").result == "cancelled"
        assert store.cancel(offer.id, by="o").result == "cancelled"
        assert store.admit([offer])[0].duplicate_of == offer.id
    assert store.claim("w", ["normal"]) == []
    assert store.size("normal") == 0


def test_a_finished_job_cannot_be_cancelled(store: Store) -> None:
    job = put_in_flight(store)
    store.settle([Settlement(job.id, job.epoch, "succeeded")])
    reply = store.cancel(job.id, by="o")
    assert (reply.result, reply.status) == ("settled", "succeeded")


def test_a_job_whose_stop_was_asked_for_does_not_come_back(store: Store) -> None:
    ends = (
        ("released", False),
        ("lost", False),
        ("requeued", False),
        ("retry", True),
        ("failed", True),
        ("reaped", False),
    )
    for outcome, has_successor in ends:
        job = put_in_flight(store)
        if has_successor:
            store.admit([Offer(job.id, "t", "normal", b"r", retries=1)])
        assert store.cancel(job.id, by="o").result == "requested"
        assert store.renew("w", None, [(job.id, job.epoch, None)]) == ([], [job.id])
        if outcome == "reaped":
            run_out(store, job.id)
            store.reap()
        else:
            store.settle([Settlement(job.id, job.epoch, outcome)])
        assert status_of(store, job.id) == "cancelled", outcome
        assert store.claim("w", ["normal"]) == []


def test_later_links_of_a_cancelled_canvas_never_run(store: Store) -> None:
    for when in ("waiting", "leased"):
        parent = an_offer(links=(f"{when}-2", f"{when}-3"))
        store.admit([parent])
        if when == "leased":
            job = store.claim("w", ["normal"])[0]
        store.cancel(parent.id, by="o")
        second = an_offer(id=f"{when}-2", links=(f"{when}-3",))
        store.admit([second])
        store.admit([an_offer(id=f"{when}-3")])
        assert [status_of(store, f"{when}-{n}") for n in (2, 3)] == ["cancelled", "cancelled"]
        if when == "leased":
            store.settle([Settlement(job.id, job.epoch, "succeeded")])
    assert store.claim("w", ["normal"]) == []


def test_a_later_link_enters_a_full_queue_once(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)
    store.admit([an_offer(links=("second",))])
    job = store.claim("w", ["normal"])[0]
    store.admit([an_offer()])
    link = an_offer(id="second")
    assert store.admit([link])[0].accepted
    assert store.admit([link])[0].duplicate_of == "second"
    assert audit.totals(store, "normal")["over_bound"] == 1
    assert store.admit([an_offer(id="second-by-another")])[0].reason == "count"
    store.settle([Settlement(job.id, job.epoch, "succeeded")])


def test_a_replaced_task_keeps_its_record_while_it_waits_again(store: Store) -> None:
    store.admit([an_offer(id="replaced")])
    job = store.claim("w", ["normal"])[0]
    store.admit([an_offer(id="header", links=("replaced",))])
    assert store.settle([Settlement(job.id, job.epoch, "ignored")]) == ["settled"]
    assert store.admit([an_offer(id="replaced")])[0].duplicate_of is None
    store.write_settings({"retention_s": 0})
    store.sweep(["normal"])
    assert status_of(store, "replaced") == "pending"
    assert [j.id for j in store.claim("w", ["normal"], 5)] == ["header", "replaced"]


def test_settled_records_are_kept_for_their_time_only(store: Store) -> None:
    for outcome in ("succeeded", "failed"):
        job = put_in_flight(store)
        store.settle([Settlement(job.id, job.epoch, outcome, error=ERROR)])
    store.write_settings({"retention_s": 0})
    store.sweep(["normal"])
    assert audit.records(store) == {}
    assert len(store.read_quarantine_spool()) == 1


def test_where_no_monitor_sweeps_a_worker_does(store: Store) -> None:
    store.write_settings({"retention_s": 0})
    for _ in range(3):
        job = put_in_flight(store)
        store.settle([Settlement(job.id, job.epoch, "succeeded")])
    holdings = Holdings(lambda: store)
    for _ in range(BEATS_PER_SWEEP):
        holdings.beat()
    assert audit.records(store) == {}
    store.forget_worker(holdings.about.name)


def test_an_expired_job_does_not_run(store: Store) -> None:
    soon = an_offer(deadline_ms=1)
    store.admit([soon, an_offer(id="b")])
    late = store.clock.now_ms() + 2
    while store.clock.now_ms() <= late:
        store.snapshot()
    assert [job.id for job in store.claim("w", ["normal"], 5)] == ["b"]
    assert status_of(store, soon.id) == "expired"


def test_a_delayed_job_runs_when_it_is_due_and_ages_from_then(store: Store) -> None:
    offer = an_offer(delay_ms=3_600_000)
    store.admit([offer])
    assert store.claim("w", ["normal"]) == []
    due = store.clock.now_ms() - 7_000
    store.client.zadd(store.root + "delayed:normal", {offer.id: due})
    assert store.snapshot()["queues"]["normal"]["oldest_eligible_at_ms"] == due
    assert store.promote(["normal"]) == 1
    assert store.snapshot()["queues"]["normal"]["oldest_eligible_at_ms"] == due
    assert [job.id for job in store.claim("w", ["normal"])] == [offer.id]


def test_critical_goes_first_then_urgent_then_the_rest(store: Store) -> None:
    for queue in ("bulk", "normal", "urgent", "critical"):
        store.admit([an_offer(queue) for _ in range(3)])
    order = [store.claim("w", ["bulk", "normal", "urgent", "critical"])[0].queue for _ in range(6)]
    assert order == ["critical"] * 3 + ["urgent"] * 3


def test_weights_share_by_cost(store: Store) -> None:
    for queue in ("bulk", "normal"):
        store.publish_policy(queue, {"weight": {"bulk": 1, "normal": 3}[queue]}, version=2)
        store.admit([an_offer(queue) for _ in range(60)])
    order = [store.claim("w", ["bulk", "normal"])[0].queue for _ in range(60)]
    for first in range(0, 30, 5):
        share = order[first : first + 30].count("normal") / 30
        assert abs(share - 0.75) <= 0.1


def test_a_cheap_class_gets_more_starts_for_the_same_cost(store: Store) -> None:
    for queue, cost in (("bulk", 400), ("normal", 100)):
        store.publish_policy(queue, {"weight": 1}, version=2)
        store.admit([an_offer(queue, cost_ms=cost) for _ in range(50)])
    order = [store.claim("w", ["bulk", "normal"])[0].queue for _ in range(50)]
    assert abs(order.count("normal") / 50 - 0.8) <= 0.1


def test_past_its_age_ceiling_a_low_class_gets_one_start_in_ten(store: Store) -> None:
    store.publish_policy("urgent", {"strict_rank": 1}, version=2)
    store.publish_policy("bulk", {"weight": 1, "age_ceiling_s": 60}, version=2)
    old = an_offer("bulk")
    store.admit([old, *(an_offer("bulk") for _ in range(30)), *(an_offer("urgent") for _ in range(90))])
    for offer_id in list(audit.records(store)):
        if audit.records(store)[offer_id]["q"] == "bulk":
            make_older(store, offer_id, 120_000)
    first = store.client.zrange(store.root + "ready:bulk|default", 0, 0, withscores=True)[0][1]
    store.client.zadd(store.root + "heads:bulk", {"default": first})
    order = [job.queue for job in (store.claim("w", ["bulk", "urgent"])[0] for _ in range(60))]
    assert 4 <= order.count("bulk") <= 7


def test_a_quiet_past_saves_up_no_starts_past_the_ceiling(store: Store) -> None:
    store.publish_policy("urgent", {"strict_rank": 1}, version=2)
    store.publish_policy("bulk", {"weight": 1, "age_ceiling_s": 60}, version=2)
    store.admit([an_offer("urgent") for _ in range(100)])
    while store.claim("w", ["bulk", "urgent"], 50):
        pass
    store.admit([*(an_offer("bulk") for _ in range(30)), *(an_offer("urgent") for _ in range(30))])
    for offer_id, record in list(audit.records(store).items()):
        if record["q"] == "bulk":
            make_older(store, offer_id, 120_000)
    first = store.client.zrange(store.root + "ready:bulk|default", 0, 0, withscores=True)[0][1]
    store.client.zadd(store.root + "heads:bulk", {"default": first})
    order = [job.queue for job in (store.claim("w", ["bulk", "urgent"])[0] for _ in range(30))]
    assert order.count("bulk") == 3


def test_tenants_take_turns_by_cost(store: Store) -> None:
    store.publish_policy("normal", {}, version=2)
    store.admit([an_offer(tenant="many") for _ in range(50)])
    first = store.claim("w", ["normal"], 5)
    store.admit([an_offer(tenant="one")])
    soon = [store.claim("w", ["normal"])[0].id for _ in range(2)]
    tenants = {audit.records(store)[op_id]["n"] for op_id in soon}
    assert tenants == {"many", "one"}
    assert len(first) == 5


def test_a_cap_on_jobs_in_flight_holds(store: Store) -> None:
    store.publish_policy("normal", {"max_in_flight": 2}, version=2)
    store.admit([an_offer() for _ in range(5)])
    jobs = store.claim("w", ["normal"], 5)
    assert len(jobs) == 2
    assert store.claim("w2", ["normal"], 5) == []
    store.settle([Settlement(jobs[0].id, jobs[0].epoch, "succeeded")])
    assert len(store.claim("w2", ["normal"], 5)) == 1


@pytest.mark.parametrize(
    ("policy", "reserve"),
    [
        ({"max_in_flight": 1}, 0),
        ({"max_in_flight_per_task": {"t": 1}}, 0),
        ({"downstream": "bank"}, 0),
        ({}, 1),
        ({}, 0),
    ],
    ids=["cap", "cap of a task", "downstream", "reserve", "nothing"],
)
def test_who_found_no_room_is_woken_by_the_next_end(
    store: Store, policy: dict[str, Any], reserve: int
) -> None:
    """However much waits. Where nothing was held back nobody is: who has ended one claims by itself."""
    store.publish_downstream("bank", Downstream(min=1, max=1, initial=1).as_fields(), version=1)
    store.publish_policy("normal", policy, version=2)
    store.publish_policy("urgent", {"strict_rank": 1, "reserved_slots": reserve}, version=2)
    queues = ["urgent", "normal"]
    store.write_crews([{"queues": queues, "slots": 2}])
    store.admit([an_offer() for _ in range(100)])
    bell = keys.bell(store.root, "normal")

    def is_rung_by(job: Any) -> bool:
        store.client.delete(bell)
        store.settle([Settlement(job.id, job.epoch, "succeeded")])
        return bool(store.client.llen(bell))

    is_held_back = bool(policy) or reserve > 0
    first = store.claim("w", queues, 1)[0]
    assert not is_rung_by(first)
    for _ in range(3):
        job = store.claim("w", queues, 1)[0]
        if is_held_back:
            assert store.claim("w", queues, 1) == []
        assert is_rung_by(job) == is_held_back
    # Once there is room for all, nobody rings any more.
    for queue in queues:
        store.publish_policy(queue, {}, version=3)
    while store.claim("w", queues, 8):
        pass
    audit.check(store)
    store.admit([an_offer()])
    assert not is_rung_by(store.claim("w", queues, 8)[0])


@pytest.mark.parametrize("why", ["ordering key", "cap of a task", "suspension", "nothing"])
def test_a_job_that_may_start_rings_beside_many_that_may_not(store: Store, why: str) -> None:
    store.publish_policy("normal", {"max_in_flight_per_task": {"capped": 1}}, version=2)
    facts: dict[str, Any] = {
        "ordering key": {"ordering_key": "k"},
        "cap of a task": {"task": "capped"},
        "suspension": {"tenant": "suspended"},
        "nothing": {},
    }[why]
    store.admit([an_offer(**facts) for _ in range(100)])
    if why == "suspension":
        store.suspend_tenant("suspended", {})
    store.claim("w", ["normal"], 100)
    if why == "nothing":
        store.admit([an_offer() for _ in range(100)])  # nobody listens: there is work for whoever comes
    store.client.delete(bell := keys.bell(store.root, "normal"))
    store.admit([an_offer(task="other", tenant="other")])
    assert bool(store.client.llen(bell)) == (why != "nothing")


def test_new_work_rings_for_nobody_where_only_an_end_makes_room(store: Store) -> None:
    """Each bell is a claim: an idle slot that waits for an end would make one for every job that comes."""
    store.publish_policy("normal", {"max_in_flight": 1, "lease_s": 0.05}, version=2)
    store.admit([an_offer() for _ in range(100)])
    assert len(store.claim("w", ["normal"], 2)) == 1
    bell = keys.bell(store.root, "normal")
    store.client.delete(bell)
    store.admit([an_offer()])
    assert not store.client.llen(bell)
    wait_until(lambda: store.reap(10))  # its worker is gone: that is an end too
    assert store.client.llen(bell)


def test_one_claim_brings_a_few_megabytes_and_the_next_ones_the_rest(store: Store) -> None:
    """Fifty jobs of 1 MB in one reply would be longer on the way than a client waits."""
    store.publish_policy("normal", {}, version=2)
    offers = [an_offer(size=1_000_000) for _ in range(50)]
    for offer in offers:
        assert store.admit([offer])[0].accepted
    claims = [store.claim("w", ["normal"], 50) for _ in range(10)]
    assert [len(jobs) for jobs in claims] == [5] * 10  # the fifth passes 4 MiB
    assert [job.id for jobs in claims for job in jobs] == [offer.id for offer in offers]
    assert audit.find_faults(store) == []


def test_a_job_larger_than_a_claim_brings_comes_alone(store: Store) -> None:
    store.publish_policy("normal", {}, version=2)
    large, *small = [an_offer(size=size) for size in (5_000_000, *[10] * 50)]
    store.admit([large])
    store.admit(small)
    assert [job.id for job in store.claim("w", ["normal"], 50)] == [large.id]
    assert [job.id for job in store.claim("w", ["normal"], 50)] == [offer.id for offer in small]


@pytest.mark.parametrize("gone", ["payloads", "ops"])
def test_data_deleted_under_the_gate_is_said_to_be_lost(store: Store, gone: str) -> None:
    store.publish_policy("normal", {}, version=2)
    offer = an_offer()
    store.admit([offer, an_offer(id="whole")])
    store.client.hdel(store.root + gone, offer.id)
    assert [job.id for job in store.claim("w", ["normal"], 5)] == ["whole"]
    assert audit.totals(store, "normal")["lost"] == 1
    if gone == "payloads":
        assert status_of(store, offer.id) == "lost"
    else:
        # What the record alone held, its cost, is not known any more and goes with the test.
        assert audit.totals(store, "normal")["bytes"] == 0
        store.client.flushall()


def test_a_delayed_job_whose_record_was_deleted_is_said_to_be_lost_when_due(store: Store) -> None:
    store.admit([an_offer(id="gone", delay_ms=3_600_000)])
    store.client.hdel(store.root + "ops", "gone")
    store.client.zadd(store.root + "delayed:normal", {"gone": 1})
    store.promote(["normal"])
    row = audit.totals(store, "normal")
    assert (row["accepted"], row["delayed"], row["bytes"], row["lost"]) == (1, 0, 0, 1)
    assert not store.client.exists(store.root + "payloads")
    store.client.flushall()  # its tenant is not known any more


def test_a_restarted_server_knows_the_scripts_again(store: Store) -> None:
    store.client.script_flush()
    job = put_in_flight(store)
    store.client.script_flush()
    assert store.settle([Settlement(job.id, job.epoch, "succeeded")]) == ["settled"]


def test_epochs_grow_on_after_the_newest_was_lost(store: Store) -> None:
    before = put_in_flight(store)
    store.client.delete(store.root + "schedule")
    after = put_in_flight(store)
    assert after.epoch > before.epoch
    store.client.set(store.root + "schedule", msgpack.packb({"epoch": after.epoch + 10_000_000}))
    assert put_in_flight(store).epoch == after.epoch + 10_000_001


def test_leadership_has_one_holder(store: Store) -> None:
    assert store.acquire_lease("monitor", "a", 60_000)
    assert store.acquire_lease("monitor", "a", 60_000)
    assert not store.acquire_lease("monitor", "b", 60_000)
    store.release_lease("monitor", "b")
    assert not store.acquire_lease("monitor", "b", 60_000)
    store.release_lease("monitor", "a")
    assert store.acquire_lease("monitor", "b", 60_000)


def test_an_operators_mode_stands_against_the_automatic_one(store: Store) -> None:
    store.set_mode("*", "draining", by="o", reason="deploy")
    assert store.set_mode("*", "normal", by="controller", reason="calm", automatic=True)["kept"]
    assert store.read_modes()["*"]["mode"] == "draining"
    assert store.set_mode("*", "normal", by="o", reason="done")["before"]["mode"] == "draining"
    assert not store.set_mode("*", "saturated", by="controller", reason="age", automatic=True)["kept"]


def test_the_snapshot_says_what_the_raw_keys_hold(store: Store) -> None:
    store.admit([an_offer(tenant=tenant) for tenant in ("a", "b", "a")] + [an_offer(delay_ms=3_600_000)])
    job = store.claim("w", ["normal"])[0]
    seen = store.snapshot()["queues"]["normal"]
    count = store.recount()["normal"]
    for gauge in ("depth", "delayed", "in_flight", "bytes", "cost_ms", "oldest_eligible_at_ms"):
        assert seen[gauge] == count[gauge], gauge
    tenants = [row for row in store.snapshot()["tenants"] if row["queue"] == "normal"]
    assert sum(row["accepted"] for row in tenants) == seen["totals"]["accepted"] == 4
    assert sum(seen["wait_bins"].values()) == 1
    store.settle([Settlement(job.id, job.epoch, "succeeded", run_ms=10)])
    assert sum(store.snapshot()["queues"]["normal"]["service_bins"].values()) == 1


def test_workers_take_back_a_dead_ones_job_where_no_monitor_runs(store: Store) -> None:
    store.publish_policy("normal", {"lease_s": 0.05}, version=2)
    offer = an_offer()
    store.admit([offer])
    job = store.claim("dead", ["normal"], 1)[0]
    living = Holdings(lambda: store)

    def is_back() -> bool:
        living.beat()
        return store.size("normal") == 1

    wait_until(is_back, within_s=10, what="the job to be back")
    again = store.claim("alive", ["normal"], 1)[0]
    assert (again.id, again.epoch > job.epoch) == (offer.id, True)
    operation = store.read_operation(offer.id)
    assert operation is not None
    assert operation.lost_count == 1
    store.forget_worker(living.about.name)

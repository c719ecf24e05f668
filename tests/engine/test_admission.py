"""Is every bound kept, and every refusal told with its reason and a time to come back?"""

from __future__ import annotations

import uuid
from typing import Any

import msgpack
import pytest

from workers.store import Offer, Settlement, Store, scripts

from . import audit


def an_offer(queue: str = "normal", *, size: int = 10, **facts: Any) -> Offer:
    given = {"id": str(uuid.uuid4()), "task": "t", "queue": queue, "payload": b"x" * size, "cost_ms": 100}
    return Offer(**{**given, **facts})


def test_an_accepted_job_waits_and_is_counted(store: Store) -> None:
    offer = an_offer()
    verdict = store.admit([offer])[0]
    assert verdict.accepted
    assert verdict.status == "pending"
    operation = store.read_operation(offer.id)
    assert operation is not None
    assert (operation.phase, operation.bytes, operation.cost_ms) == ("waiting", 10, 100)
    assert store.size("normal") == 1


@pytest.mark.parametrize(
    ("policy", "offers", "reason"),
    [
        ({"max_count": 3}, [an_offer() for _ in range(4)], "count"),
        ({"max_bytes": 100}, [an_offer(size=40) for _ in range(3)], "bytes"),
        ({"max_cost_ms": 250}, [an_offer() for _ in range(3)], "cost"),
        (
            {"max_count": 10, "tenant_share": 0.3},
            [an_offer(tenant="b"), *(an_offer() for _ in range(4))],
            "tenant",
        ),
        ({"max_bytes": 5}, [an_offer()], "size"),
    ],
)
def test_the_offer_that_would_pass_a_bound_is_refused(
    store: Store, policy: dict[str, Any], offers: list[Offer], reason: str
) -> None:
    store.publish_policy("normal", policy, version=2)
    verdicts = [store.admit([offer])[0] for offer in offers]
    assert [v.accepted for v in verdicts] == [True] * (len(offers) - 1) + [False]
    last = verdicts[-1]
    assert last.reason == reason
    assert last.retry_after_s is not None
    assert last.retry_after_s >= 1
    assert store.read_operation(offers[-1].id) is None
    assert audit.totals(store, "normal")[f"refused:{reason}"] == 1


@pytest.mark.parametrize("share", [None, 0.5])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("policy", "unit"),
    [({"max_count": 4}, "jobs"), ({"max_bytes": 40}, "bytes"), ({"max_cost_ms": 400}, "ms")],
)
def test_a_refusal_says_in_what_its_bound_is_counted(
    store: Store, policy: dict[str, Any], unit: str, whole: bool, share: float | None
) -> None:
    """``share``: the bound that is met is one tenant's share of the queue's."""
    store.publish_policy("normal", {**policy, "tenant_share": share}, version=2)
    if share:
        store.admit([an_offer(tenant="b")])
    offers = [an_offer() for _ in range(5)]
    verdicts = store.admit(offers, whole=True) if whole else [store.admit([one])[0] for one in offers]
    refused = verdicts[-1]
    assert (refused.accepted, refused.reason == "tenant", refused.unit) == (False, bool(share), unit)
    assert all(verdict.unit is None for verdict in verdicts if verdict.accepted)


def test_delayed_jobs_count_against_count_and_bytes_but_not_cost(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 2, "max_cost_ms": 150}, version=2)
    assert store.admit([an_offer(delay_ms=3_600_000)])[0].accepted
    assert store.admit([an_offer()])[0].accepted
    assert store.admit([an_offer()])[0].reason == "count"


def test_age_of_the_oldest_eligible_job_closes_the_door(store: Store) -> None:
    store.publish_policy("normal", {"max_age_s": 60}, version=2)
    first = an_offer()
    store.admit([first])
    assert store.admit([an_offer()])[0].accepted
    make_older(store, first.id, 61_000)
    assert store.admit([an_offer()])[0].reason == "age"
    job = store.claim("w", ["normal"])[0]
    assert job.id == first.id
    assert store.admit([an_offer()])[0].accepted
    store.settle([Settlement(job.id, job.epoch, "succeeded")])


def test_an_hour_of_delay_is_no_age(store: Store) -> None:
    store.publish_policy("normal", {"max_age_s": 60}, version=2)
    store.admit([an_offer(delay_ms=3_600_000)])
    assert store.snapshot()["queues"]["normal"]["oldest_eligible_at_ms"] is None
    assert store.admit([an_offer()])[0].accepted


def test_an_offer_with_a_known_id_changes_nothing(store: Store) -> None:
    offer = an_offer()
    store.admit([offer])
    again = store.admit([offer])[0]
    assert again.accepted
    assert again.duplicate_of == offer.id
    assert audit.totals(store, "normal")["offered"] == 1


def test_one_idempotency_key_makes_one_job(store: Store) -> None:
    keyed = [an_offer(idempotency_key="k", idempotency_hash="h") for _ in range(3)]
    first = store.admit([keyed[0]])[0]
    second = store.admit([keyed[1]])[0]
    assert (second.accepted, second.id) == (True, first.id)
    other_body = store.admit([an_offer(idempotency_key="k", idempotency_hash="other")])[0]
    assert other_body.conflict
    other_tenant = store.admit([an_offer(tenant="b", idempotency_key="k", idempotency_hash="h")])[0]
    assert other_tenant.accepted
    assert other_tenant.id != first.id
    assert store.size("normal") == 2


def test_a_repeated_key_answers_with_what_became_of_the_job(store: Store) -> None:
    first = an_offer(idempotency_key="k", idempotency_hash="h")
    store.admit([first])
    job = store.claim("w", ["normal"])[0]
    store.settle([Settlement(job.id, job.epoch, "succeeded")])
    again = store.admit([an_offer(idempotency_key="k", idempotency_hash="h")])[0]
    assert (again.id, again.status, again.accepted) == (first.id, "succeeded", True)


def test_one_idempotency_key_makes_one_job_within_one_call(store: Store) -> None:
    keyed = [an_offer(idempotency_key="k", idempotency_hash="h") for _ in range(3)]
    verdicts = store.admit(keyed)
    assert {v.id for v in verdicts} == {keyed[0].id}
    assert store.size("normal") == 1


def test_an_idempotency_key_needs_no_hash(store: Store) -> None:
    first, second = (an_offer(idempotency_key="k") for _ in range(2))
    assert store.admit([first])[0].accepted
    assert store.admit([second])[0].id == first.id
    assert store.size("normal") == 1


def test_a_whole_canvas_enters_or_nothing_of_it(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 3}, version=2)
    assert all(v.accepted for v in store.admit([an_offer(), an_offer()], whole=True))
    refused = store.admit([an_offer(), an_offer()], whole=True)
    assert [v.reason for v in refused] == ["count", "count"]
    assert store.size("normal") == 2
    assert audit.totals(store, "normal")["refused"] == 2


def test_nothing_of_a_refused_canvas_is_said_to_be_accepted(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)
    same = an_offer()
    verdicts = store.admit([same, same, an_offer()], whole=True)
    assert [v.accepted for v in verdicts] == [False, False, False]
    assert store.size("normal") == 0


def test_an_offer_that_was_stuck_on_its_way_is_refused(store: Store) -> None:
    store.admit([an_offer()])
    late = store.admit([an_offer()], not_after_ms=store.clock.now_ms() - 1000)[0]
    assert late.reason == "unavailable"
    assert store.size("normal") == 1


@pytest.mark.parametrize(
    ("scope", "mode", "queue", "reason"),
    [
        ("*", "draining", "normal", "mode"),
        ("normal", "draining", "normal", "mode"),
        ("*", "failed", "critical", "unavailable"),
        ("*", "saturated", "bulk", "mode"),
        ("bulk", "draining", "normal", None),
        ("*", "saturated", "critical", None),
    ],
)
def test_a_mode_is_obeyed_at_the_next_offer(
    store: Store, scope: str, mode: str, queue: str, reason: str | None
) -> None:
    store.set_mode(scope, mode, by="o", reason="test")
    assert store.admit([an_offer(queue)])[0].reason == reason
    store.set_mode(scope, "normal", by="o", reason="over")
    assert store.admit([an_offer(queue)])[0].accepted


def test_a_mode_that_has_run_out_admits_again(store: Store) -> None:
    store.set_mode("*", "draining", by="o", reason="test", until_at_ms=store.clock.now_ms() - 1)
    assert store.admit([an_offer()])[0].accepted


def test_saturated_leaves_a_queue_its_share(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 4, "saturated_share": 0.5}, version=2)
    store.set_mode("*", "saturated", by="o", reason="test")
    assert [store.admit([an_offer()])[0].reason for _ in range(3)] == [None, None, "count"]


def test_a_bound_lowered_below_what_waits_refuses_and_drains(store: Store) -> None:
    for _ in range(5):
        store.admit([an_offer()])
    store.publish_policy("normal", {"max_count": 2}, version=2)
    assert store.admit([an_offer()])[0].reason == "count"
    for job in store.claim("w", ["normal"], 4):
        store.settle([Settlement(job.id, job.epoch, "succeeded")])
    assert store.admit([an_offer()])[0].accepted


def test_a_deadline_that_cannot_be_met_is_refused(store: Store) -> None:
    store.publish_model("normal", {"service_rate_per_s": 10.0, "seconds_to_drain": 30.0})
    assert store.admit([an_offer(deadline_ms=5_000)])[0].reason == "deadline"
    assert store.admit([an_offer(deadline_ms=60_000)])[0].accepted


def test_refused_clients_do_not_all_come_back_together(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)
    store.publish_model("normal", {"service_rate_per_s": 2.0})
    store.admit([an_offer() for _ in range(30)])
    told = [store.admit([an_offer()])[0].retry_after_s for _ in range(50)]
    assert all(t is not None and 0 < t <= 300 for t in told)
    assert len({round(t or 0, 1) for t in told}) > 1


def test_a_task_of_unknown_cost_gets_what_was_measured(store: Store) -> None:
    store.admit([an_offer(cost_ms=None)])
    job = store.claim("w", ["normal"])[0]
    store.settle([Settlement(job.id, job.epoch, "succeeded", run_ms=777)])
    known = an_offer(cost_ms=None)
    store.admit([known])
    operation = store.read_operation(known.id)
    assert operation is not None
    assert operation.cost_ms == 777


def test_counters_of_a_tenant_that_was_only_refused_expire_and_others_do_not(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)

    def expires(tenant: str) -> bool:
        return store.client.pttl(f"{store.root}tenant:normal|{tenant}") > 0

    store.admit([an_offer(tenant="known")])
    for tenant in ("stranger", "known"):
        assert store.admit([an_offer(tenant=tenant)])[0].reason == "count"
    store.report_refusals({("normal", "far stranger", "count"): 3})
    assert [expires(t) for t in ("known", "stranger", "far stranger")] == [False, True, True]
    store.publish_policy("normal", {}, version=3)
    store.admit([an_offer(tenant="stranger")])
    assert not expires("stranger")


def test_names_of_tenants_may_be_anything(store: Store) -> None:
    names = ["a", "A", "名前", "x|y", "x:y", "{z}", "%s", "\n", "'", "🜁" * 50]
    for name in names:
        assert store.admit([an_offer(tenant=name, size=1)])[0].accepted
    shown = {row["tenant"] for row in store.snapshot()["tenants"]}
    assert set(names) <= shown


def test_a_queue_without_a_policy_is_the_default_queue(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)
    assert store.admit([an_offer("celery")])[0].queue == "normal"
    assert store.admit([an_offer("celery")])[0].reason == "count"


def make_older(store: Store, op_id: str, by_ms: int) -> None:
    """Moves a waiting job, and so its line's head, into the past."""
    raw = store.client.hget(store.root + "ops", op_id)
    assert raw is not None
    rec = scripts.unpack(raw)
    place = f"{rec['q']}|{rec['n']}"
    rec["e"] = rec.get("e", rec["a"]) - by_ms
    score = (rec["e"] - 1735689600000) * 4096
    store.client.hset(store.root + "ops", op_id, msgpack.packb(rec))
    store.client.zadd(f"{store.root}ready:{place}", {op_id: score})
    store.client.zadd(f"{store.root}heads:{rec['q']}", {rec["n"]: score})


def test_numbers_in_the_form_of_an_earlier_checkout_are_noticed(store: Store) -> None:
    store.admit([an_offer()])
    assert not store.has_old_layout()
    numbers = audit.totals(store, "normal")
    store.client.delete(store.root + "totals:normal")
    store.client.hset(store.root + "totals:normal", mapping=numbers)
    assert store.has_old_layout()
    store.client.delete(store.root + "totals:normal")
    store.client.set(store.root + "totals:normal", msgpack.packb(numbers))

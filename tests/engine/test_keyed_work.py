"""Do ordering keys and coalescing keys keep their promise when they meet each other, and within one call?"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.store import Offer, Settlement, Store

from . import audit
from .test_admission import an_offer


def test_offers_of_one_call_cannot_all_take_the_same_place(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 2}, version=2)
    store.admit([an_offer(coalesce_key="k"), an_offer()])
    verdicts = store.admit([an_offer(coalesce_key="k") for _ in range(4)])
    assert [v.accepted for v in verdicts] == [True, False, False, False]
    assert store.size("normal") == 2


def test_what_is_about_to_be_replaced_is_not_shed_as_well(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 2, "max_bytes": 100, "on_full": "drop_oldest"}, version=2)
    store.admit([an_offer(coalesce_key="k"), an_offer(size=60)])
    store.admit([an_offer(coalesce_key="k", size=50)])
    assert store.size("normal") <= 2
    assert (store.recount()["normal"]["bytes"] or 0) <= 100


def test_a_replacement_with_an_older_place_waits_for_who_runs(store: Store) -> None:
    old = an_offer(coalesce_key="c")
    running = an_offer(ordering_key="k")
    store.admit([old])
    store.admit([running])
    claimed = {job.id: job for job in store.claim("w", ["normal"], 1)}
    assert set(claimed) == {old.id}
    store.settle([Settlement(old.id, claimed[old.id].epoch, "released")])
    store.cancel("nobody", by="t")
    # The one that waits takes over a place before the one that runs.
    first = store.claim("w", ["normal"], 2)
    store.settle([Settlement(job.id, job.epoch, "released") for job in first if job.id == old.id])
    assert store.admit([an_offer(id="new", coalesce_key="c", ordering_key="k")])[0].accepted
    assert store.claim("w", ["normal"], 5) == []
    held = next(job for job in first if job.id == running.id)
    store.settle([Settlement(held.id, held.epoch, "succeeded")])
    assert [job.id for job in store.claim("w", ["normal"], 5)] == ["new"]


def test_keys_of_two_tenants_are_never_one(store: Store) -> None:
    store.publish_policy("normal", {}, version=2)
    one, two = {"tenant": "a|b"}, {"tenant": "a"}
    for name in ("ordering_key", "coalesce_key"):
        store.admit([an_offer(**one, **{name: "c"}), an_offer(**two, **{name: "b|c"})])
    first = store.admit([an_offer(**one, idempotency_key="c", idempotency_hash="h")])[0]
    other = store.admit([an_offer(**two, idempotency_key="b|c", idempotency_hash="h")])[0]
    assert first.id != other.id
    assert store.admit([an_offer(**one, ordering_key="s", source_sequence=9)])[0].accepted
    assert store.admit([an_offer(**two, ordering_key="b|s", source_sequence=1)])[0].accepted
    store.claim("w", ["normal"], 20)
    assert {rec["s"] for rec in audit.records(store).values()} == {"leased"}


KEYS = st.sampled_from([None, "x", "y"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    offers=st.lists(st.tuples(KEYS, KEYS, st.sampled_from([0, 0, 0, 3_600_000])), min_size=1, max_size=8),
    steps=st.lists(
        st.sampled_from(["claim", "succeeded", "failed", "retry", "released", "lose", "cancel", "offer"]),
        max_size=25,
    ),
    data=st.data(),
)
def test_at_most_one_job_of_a_key_is_in_flight_and_none_is_forgotten(
    store: Store, offers: list[Any], steps: list[str], data: st.DataObject
) -> None:
    store.client.flushdb()
    store.publish_policy("normal", {}, version=1)
    numbers, held, waiting = count(), [], list(offers)

    def offer(key: str | None, same: str | None, delay_ms: int) -> None:
        store.admit(
            [an_offer(id=f"k{next(numbers)}", ordering_key=key, coalesce_key=same, delay_ms=delay_ms)]
        )

    for step in ["offer", "claim", *steps]:
        if step == "offer":
            for each in waiting:
                offer(*each)
        elif step == "claim":
            held += store.claim("w", ["normal"], data.draw(st.integers(1, 4)))
        elif step == "cancel":
            known = sorted(audit.records(store))
            store.cancel(data.draw(st.sampled_from(known)), by="t")
        elif held:
            job = held.pop(data.draw(st.integers(0, len(held) - 1)))
            if step == "lose":
                store.client.zadd(store.root + "leases", {job.id: 1})
                store.reap()
            else:
                if step == "retry":
                    record = audit.records(store)[job.id]
                    store.admit([Offer(job.id, "t", "normal", b"r", retries=record.get("r", 0) + 1)])
                store.settle([Settlement(job.id, job.epoch, step)])
        records = audit.records(store)
        busy = Counter(rec["ok"] for rec in records.values() if rec["s"] == "leased" and "ok" in rec)
        assert all(number == 1 for number in busy.values()), busy
        # Of each key with work there is one that stands in a line, waits for its time or runs.
        live = [rec for rec in records.values() if rec["s"] in ("waiting", "delayed", "blocked", "leased")]
        for key in {rec["ok"] for rec in live if "ok" in rec}:
            assert sum(rec.get("ok") == key and rec["s"] != "blocked" for rec in live) == 1, key
        audit.check(store)
    store.settle([Settlement(job.id, job.epoch, "succeeded") for job in held])
    while True:
        for op_id in store.client.zrange(store.root + "delayed:normal", 0, -1):
            store.client.zadd(store.root + "delayed:normal", {op_id: 1})
        jobs = store.claim("w", ["normal"], 10)
        if not jobs:
            break
        store.settle([Settlement(job.id, job.epoch, "succeeded") for job in jobs])
    assert store.size("normal") == 0
    assert not store.client.keys(store.root + "order:*")


@pytest.mark.parametrize("ends", ["succeeded", "failed", "expired", "cancelled"])
def test_a_key_goes_on_however_its_first_ends(store: Store, ends: str) -> None:
    pair = [an_offer(ordering_key="k") for _ in range(2)]
    for offer in pair:
        store.admit([offer])
    job = store.claim("w", ["normal"], 5)[0]
    store.settle([Settlement(job.id, job.epoch, ends)])
    assert [j.id for j in store.claim("w", ["normal"], 5)] == [pair[1].id]


def test_what_waits_behind_a_running_job_of_its_key_is_purged_too(store: Store) -> None:
    store.admit([an_offer(ordering_key="k")])
    job = store.claim("w", ["normal"])[0]
    store.admit([an_offer(ordering_key="k"), an_offer(ordering_key="k")])
    assert store.purge("normal", by="t") == 2
    store.settle([Settlement(job.id, job.epoch, "succeeded")])

"""Does a bound, a claim or an end hold when many ask in the same moment?"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from workers.store import Offer, Settlement, Store

from . import audit
from .test_admission import an_offer

PRODUCERS = 16


def all_at_once(url: str, number: int, work: Callable[[Store, int], Any]) -> list[Any]:
    """What ``work`` gives in each of ``number`` threads, each on a connection of its own, let go together."""
    barrier = threading.Barrier(number)

    def run(index: int) -> Any:
        own = Store.from_url(url, timeout_s=20)
        own.client.ping()
        barrier.wait(30)
        try:
            return work(own, index)
        finally:
            own.client.close()

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(run, range(number)))


@pytest.mark.parametrize(
    ("policy", "gauge", "bound", "reason"),
    [
        ({"max_count": 50}, "count", 50, "count"),
        ({"max_bytes": 500}, "bytes", 500, "bytes"),
        ({"max_cost_ms": 5000}, "cost_ms", 5000, "cost"),
    ],
)
def test_no_bound_is_passed_however_many_producers_race(
    store: Store, redis_url: str, policy: dict[str, Any], gauge: str, bound: int, reason: str
) -> None:
    store.publish_policy("normal", policy, version=2)

    def produce(own: Store, index: int) -> list[str | None]:
        return [
            own.admit([an_offer(delay_ms=3_600_000 if gauge == "bytes" and i % 2 else 0)])[0].reason
            for i in range(10)
        ]

    told = Counter(word for words in all_at_once(redis_url, PRODUCERS, produce) for word in words)
    assert told == {None: 50, reason: PRODUCERS * 10 - 50}
    row = store.recount()["normal"]
    held = {
        "count": (row["depth"] or 0) + (row["delayed"] or 0),
        "bytes": row["bytes"],
        "cost_ms": row["cost_ms"],
    }
    assert held[gauge] == bound


def test_no_tenant_passes_its_share_and_none_pays_for_another(store: Store, redis_url: str) -> None:
    store.publish_policy("normal", {"max_count": 100, "tenant_share": 0.3}, version=2)
    store.admit([an_offer(tenant="t0"), an_offer(tenant="t1")])

    def produce(own: Store, index: int) -> tuple[str, Counter[str | None]]:
        tenant = f"t{index % 2}"
        return tenant, Counter(own.admit([an_offer(tenant=tenant)])[0].reason for _ in range(10))

    for _, told in all_at_once(redis_url, PRODUCERS, produce):
        assert set(told) <= {None, "tenant"}
    for tenant in ("t0", "t1"):
        assert audit.Contents(store).numbers(f"tenant:normal|{tenant}")["accepted"] == 30


def test_producers_and_workers_at_once_keep_the_bound_at_every_instant(store: Store, redis_url: str) -> None:
    store.publish_policy("normal", {"max_count": 20}, version=2)
    highest = 0

    def work(own: Store, index: int) -> int:
        nonlocal highest
        if index == 0:
            for _ in range(150):
                row = own.snapshot()["queues"]["normal"]
                highest = max(highest, row["depth"] + row["delayed"])
                accepted = row["totals"]["accepted"]
                places = ("succeeded", "failed", "cancelled", "expired", "superseded", "shed", "lost")
                assert accepted == row["depth"] + row["delayed"] + row["in_flight"] + sum(
                    row["totals"][p] for p in places
                )
            return 0
        if index % 4:
            return sum(own.admit([an_offer()])[0].accepted for _ in range(60))
        done = 0
        for _ in range(60):
            for job in own.claim(f"w{index}", ["normal"], 2):
                done += own.settle([Settlement(job.id, job.epoch, "succeeded")]) == ["settled"]
        return done

    all_at_once(redis_url, 9, work)
    assert 0 < highest <= 20


def test_each_job_is_claimed_by_one(store: Store, redis_url: str) -> None:
    store.publish_policy("normal", {}, version=2)
    ids = {f"j{i}" for i in range(300)}
    store.admit([an_offer(id=op_id) for op_id in sorted(ids)])

    def claim(own: Store, index: int) -> list[tuple[str, int]]:
        got: list[tuple[str, int]] = []
        while jobs := own.claim(f"w{index}", ["normal"], 1 + index % 5):
            got += [(job.id, job.epoch) for job in jobs]
        return got

    taken = [pair for got in all_at_once(redis_url, PRODUCERS, claim) for pair in got]
    assert Counter(op_id for op_id, _ in taken) == Counter(ids)
    assert len({epoch for _, epoch in taken}) == 300


def test_a_cap_on_jobs_in_flight_holds_in_a_race(store: Store, redis_url: str) -> None:
    store.publish_policy("normal", {"max_in_flight": 7}, version=2)
    store.admit([an_offer() for _ in range(60)])
    taken = all_at_once(redis_url, PRODUCERS, lambda own, index: len(own.claim(f"w{index}", ["normal"], 3)))
    assert sum(taken) == 7


def test_one_idempotency_key_makes_one_job_in_a_race(store: Store, redis_url: str) -> None:
    def submit(own: Store, index: int) -> str:
        return own.admit([an_offer(idempotency_key="k", idempotency_hash="h")])[0].id

    assert len(set(all_at_once(redis_url, 50, submit))) == 1
    assert audit.totals(store, "normal")["offered"] == 1


def test_the_same_id_from_many_is_one_job(store: Store, redis_url: str) -> None:
    all_at_once(redis_url, PRODUCERS, lambda own, index: own.admit([an_offer(id="same")]))
    assert audit.totals(store, "normal")["accepted"] == 1


def test_cancel_and_claim_agree_on_who_came_first(store: Store, redis_url: str) -> None:
    store.publish_policy("normal", {}, version=2)
    ids = [f"j{i}" for i in range(120)]
    store.admit([an_offer(id=op_id) for op_id in ids])

    def work(own: Store, index: int) -> tuple[set[str], set[str]]:
        if index % 2:
            return {
                op_id for op_id in reversed(ids) if own.cancel(op_id, by="o").result == "cancelled"
            }, set()
        claimed = set()
        while jobs := own.claim(f"w{index}", ["normal"], 1):
            claimed |= {job.id for job in jobs}
        return set(), claimed

    answers = all_at_once(redis_url, 8, work)
    cancelled = set().union(*(answer[0] for answer in answers))
    claimed = set().union(*(answer[1] for answer in answers))
    assert cancelled | claimed == set(ids)
    assert not cancelled & claimed


def test_of_an_end_and_a_reaper_one_wins(store: Store, redis_url: str) -> None:
    store.publish_policy("normal", {}, version=2)
    store.admit([an_offer() for _ in range(100)])
    jobs = store.claim("w", ["normal"], 100)
    store.client.zadd(store.root + "leases", {job.id: 1 for job in jobs})

    def work(own: Store, index: int) -> list[str]:
        if index % 2:
            return [row["id"] for row in own.reap(3) + own.reap(3) + own.reap(100)]
        mine = jobs[index // 2 :: 4]
        return [
            job.id for job in mine if own.settle([Settlement(job.id, job.epoch, "succeeded")]) == ["settled"]
        ]

    answers = all_at_once(redis_url, 8, work)
    settled = {op_id for answer in answers[::2] for op_id in answer}
    reaped = {op_id for answer in answers[1::2] for op_id in answer}
    assert not settled & reaped
    assert settled | reaped == {job.id for job in jobs}
    assert audit.totals(store, "normal")["succeeded"] == len(settled)
    assert audit.totals(store, "normal").get("redelivered", 0) == len(reaped)


def test_two_ends_of_one_delivery_count_once(store: Store, redis_url: str) -> None:
    store.admit([an_offer()])
    job = store.claim("w", ["normal"])[0]
    words = all_at_once(
        redis_url,
        PRODUCERS,
        lambda own, index: own.settle([Settlement(job.id, job.epoch, ("succeeded", "failed")[index % 2])])[0],
    )
    assert sum(word in ("settled", "quarantined") for word in words) == 1
    assert words.count("stale") == PRODUCERS - 1


def test_a_canvas_enters_whole_in_a_race(store: Store, redis_url: str) -> None:
    store.publish_policy("normal", {"max_count": 50}, version=2)

    def produce(own: Store, index: int) -> list[set[bool]]:
        return [{v.accepted for v in own.admit([an_offer() for _ in range(7)], whole=True)} for _ in range(3)]

    answers = [answer for each in all_at_once(redis_url, PRODUCERS, produce) for answer in each]
    assert all(len(answer) == 1 for answer in answers)
    assert store.size("normal") == 49


def _flood(url: str, index: int, start: Any, out: Any) -> None:
    own = Store.from_url(url, timeout_s=20)
    start.wait(60)
    offers = [Offer(f"{index}-{i}", "t", "normal", b"x", cost_ms=1) for i in range(50)]
    out.put(sum(own.admit([offer])[0].accepted for offer in offers))


@pytest.mark.soak
def test_no_bound_is_passed_by_processes(store: Store, redis_url: str) -> None:
    store.publish_policy("normal", {"max_count": 100}, version=2)
    context = get_context("spawn")
    start, out = context.Event(), context.Queue()
    processes = [context.Process(target=_flood, args=(redis_url, i, start, out)) for i in range(8)]
    for process in processes:
        process.start()
    start.set()
    accepted = sum(out.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(30)
    assert accepted == store.size("normal") == 100

"""Is work whose authority has ended not started, and nothing of it lost?"""

from __future__ import annotations

from typing import Any

import pytest

from workers.store import Offer, Settlement, Store, commands

from . import audit

ABOUT = {"by": "o", "reason": "unpaid", "at_ms": 1}


def offer(number: int, tenant: str = "a", **facts: Any) -> Offer:
    given: dict[str, Any] = {"task": "t", "queue": "normal", "payload": b"x" * 10, "cost_ms": 100, **facts}
    return Offer(id=f"{tenant}{number}", tenant=tenant, **given)


def claim(store: Store, most: int = 50) -> list[str]:
    return [job.id for job in store.claim("w", ["critical", "normal", "bulk"], most)]


@pytest.fixture
def waiting(store: Store) -> Store:
    """Five jobs of tenant a and five of b, in turns."""
    for number in range(5):
        store.admit([offer(number, "a"), offer(number, "b")])
    return store


def test_what_a_suspended_tenant_has_waiting_is_held_and_others_go_on(waiting: Store) -> None:
    assert waiting.suspend_tenant("a", ABOUT) == 5
    assert claim(waiting) == [f"b{n}" for n in range(5)]
    row = waiting.snapshot()["queues"]["normal"]
    assert (row["depth"], row["held"], row["held_cost_ms"], row["oldest_eligible_at_ms"]) == (5, 5, 500, None)
    audit.check(waiting)


def test_its_offers_are_refused_with_the_reason_and_others_are_not(waiting: Store) -> None:
    waiting.suspend_tenant("a", ABOUT)
    mine, theirs = waiting.admit([offer(9, "a"), offer(9, "b")])
    assert (mine.accepted, mine.reason, theirs.accepted) == (False, "suspended", True)
    assert waiting.snapshot()["queues"]["normal"]["totals"]["refused_by"] == {"suspended": 1}


def test_resumed_jobs_run_in_their_order_and_their_age_begins_anew(waiting: Store) -> None:
    waiting.suspend_tenant("a", ABOUT)
    before_ms = waiting.snapshot()["now_ms"]
    assert waiting.resume_tenant("a") == 5
    assert waiting.admit([offer(9, "a")])[0].accepted
    times = waiting.read_operation("a0").times  # type: ignore[union-attr]
    assert times["enqueued_at_ms"] >= before_ms >= times["accepted_at_ms"]  # type: ignore[operator]
    audit.check(waiting)
    assert [op_id for op_id in claim(waiting) if op_id.startswith("a")] == [
        f"a{n}" for n in (0, 1, 2, 3, 4, 9)
    ]


def test_a_resume_that_was_killed_half_way_is_gone_on_with(waiting: Store, monkeypatch: Any) -> None:
    waiting.suspend_tenant("a", ABOUT)
    monkeypatch.setattr(commands, "MOST_RESUMED", 2)
    assert waiting._run("resume", "a", 2, "normal")[1:] == [2, "more"]  # and then nobody goes on
    assert waiting.read_suspended().keys() == {"a"}
    assert not [op_id for op_id in claim(waiting) if op_id.startswith("a")]
    audit.check(waiting)
    assert waiting.resume_tenant("a") == 3
    assert claim(waiting) == [f"a{n}" for n in range(5)]


def test_suspended_again_while_it_is_resumed(waiting: Store) -> None:
    waiting.suspend_tenant("a", ABOUT)
    waiting._run("resume", "a", 2, "normal")
    waiting.suspend_tenant("a", ABOUT)
    assert not [op_id for op_id in claim(waiting) if op_id.startswith("a")]
    waiting.resume_tenant("a")
    assert claim(waiting) == [f"a{n}" for n in range(5)]


def test_what_comes_back_while_suspended_is_held(store: Store) -> None:
    """Retries, jobs of a lost worker, due jobs and later links are accepted work: kept, and held."""
    store.admit([offer(1, links=("link",)), offer(2), offer(3, delay_ms=60_000)])
    jobs = store.claim("w", ["normal"], 2)
    store.suspend_tenant("a", ABOUT)
    assert store.admit([offer(1, retries=1)])[0].accepted
    link = Offer(id="link", task="t", queue="bulk", payload=b"l", tenant="a")  # a queue where a is new
    assert store.admit([link])[0].accepted
    store.settle(
        [Settlement(jobs[0].id, jobs[0].epoch, "retry"), Settlement(jobs[1].id, jobs[1].epoch, "lost")]
    )
    store.client.zadd(f"{store.root}delayed:normal", {"a3": store.clock.now_ms() - 10})
    store.promote(["normal"])
    assert claim(store) == []
    audit.check(store)
    store.resume_tenant("a")
    assert sorted(claim(store)) == ["a1", "a2", "a3", "link"]


def test_a_suspended_tenant_does_not_make_the_queue_old(store: Store) -> None:
    store.publish_policy("normal", {"max_age_s": 0.001}, version=2)
    store.admit([offer(1)])
    store.suspend_tenant("a", ABOUT)
    assert store.admit([offer(1, "b")])[0].accepted


def test_the_whole_queue_can_be_purged_while_a_tenant_is_suspended(waiting: Store) -> None:
    waiting.suspend_tenant("a", ABOUT)
    assert waiting.purge("normal", by="o") == 10
    audit.check(waiting)


def test_a_job_of_a_revoked_key_is_not_started_and_says_why(store: Store) -> None:
    store.admit(
        [offer(1, api_key="7"), offer(2, api_key="8"), offer(3), offer(4, api_key="7", delay_ms=50_000)]
    )
    store.bar_keys({"7": "sg_abc"})
    assert claim(store) == ["a2", "a3"]
    ended = store.read_operation("a1")
    assert ended is not None
    assert (ended.status, ended.cancel_requested_by, ended.attempts) == ("cancelled", "revoked key sg_abc", 0)
    assert ended.error is not None and ended.error["type"] == "AuthorityRevoked"
    store.client.zadd(f"{store.root}delayed:normal", {"a4": store.clock.now_ms() - 10})
    assert claim(store) == []
    assert store.read_operation("a4").status == "cancelled"  # type: ignore[union-attr]
    refused = store.admit([offer(5, api_key="7")])[0]
    assert (refused.accepted, refused.reason) == (False, "revoked")
    assert store.read_payload("a1") is None


def test_a_retry_of_a_running_job_of_a_revoked_key_is_not_started(store: Store) -> None:
    store.admit([offer(1, api_key="7")])
    job = store.claim("w", ["normal"], 1)[0]
    store.bar_keys({"7": "sg_abc"})
    store.admit([offer(1, api_key="7", retries=1)])
    store.settle([Settlement(job.id, job.epoch, "retry")])
    assert claim(store) == []
    assert store.read_operation("a1").status == "cancelled"  # type: ignore[union-attr]


def test_nothing_is_asked_where_nobody_is_suspended_or_revoked(store: Store) -> None:
    """What is not used costs no command."""
    store.admit([offer(1, api_key="7")])
    store.client.config_resetstat()
    store.admit([offer(2, api_key="7")])
    claim(store)
    commands_run = store.client.info("commandstats")
    assert "cmdstat_hexists" not in commands_run or commands_run["cmdstat_hexists"]["calls"] == 0
    store.suspend_tenant("b", ABOUT)
    store.resume_tenant("b")
    assert not store.client.hexists(store.root + "modes", "|barred")
    assert not store.client.hexists(store.root + "rules", "barred")

"""Is what a deletion takes away gone from Redis, and does everything still add up?"""

from __future__ import annotations

from typing import Any

from workers.store import Offer, Settlement, Store, scripts

from . import audit

MARK = b"MARKED-alice"
ERROR = {"type": "E", "message": MARK.decode(), "traceback": MARK.decode()}


def offer(op_id: str, **facts: Any) -> Offer:
    given: dict[str, Any] = {"task": "t", "queue": "normal", "payload": MARK, "cost_ms": 100, **facts}
    return Offer(id=op_id, tags=(MARK.decode(),), **given)


def everything(store: Store) -> bytes:
    """All that the gate keeps, as bytes."""
    found = b""
    for key in store.client.scan_iter("*", count=1000):
        found += key + (store.client.dump(key) or b"")
        if store.client.type(key) == b"hash":
            found += b"".join(store.client.hvals(key))
    return found


def erased(store: Store, *ids: str) -> dict[str, str]:
    return {gone.id: gone.place for gone in store.erase("r1", ids)}


def test_what_waits_is_delayed_is_parked_or_failed_keeps_nothing(store: Store) -> None:
    store.admit([offer("failed")])
    job = store.claim("w", ["normal"], 1)[0]
    store.settle([Settlement(job.id, job.epoch, "failed", error=ERROR)])
    store.admit([offer("done")])
    job = store.claim("w", ["normal"], 1)[0]
    store.settle([Settlement(job.id, job.epoch, "succeeded", result_repr=MARK.decode())])
    store.admit(
        [
            offer("waits"),
            offer("later", delay_ms=60_000),
            offer("k1", ordering_key="k"),
            offer("k2", ordering_key="k"),
        ]
    )
    assert MARK in everything(store)
    ids = ("failed", "done", "waits", "later", "k1", "k2")
    places = ("held", "settled", "waiting", "delayed", "waiting", "waiting")
    assert erased(store, *ids) == dict(zip(ids, places, strict=True))
    assert MARK not in everything(store)
    audit.check(store)
    assert erased(store, *ids) == dict.fromkeys(ids, "again")
    states = [store.read_operation(op_id).status for op_id in ids]  # type: ignore[union-attr]
    assert states == ["failed", "succeeded", "cancelled", "cancelled", "cancelled", "cancelled"]


def test_no_deleted_operation_comes_back_by_its_id(store: Store) -> None:
    store.admit([offer("a")])
    erased(store, "a", "never-seen")
    store.client.hdel(store.root + "ops", "a")
    store.client.zrem(store.root + "settled", "a")
    for op_id in ("a", "never-seen"):
        verdict = store.admit([offer(op_id)])[0]
        assert (verdict.duplicate_of, verdict.status) == (op_id, "cancelled")
    assert store.claim("w", ["normal"], 5) == []


def test_what_runs_is_asked_to_stop_and_keeps_nothing_whatever_comes_of_it(store: Store) -> None:
    for number, outcome in enumerate(("succeeded", "failed", "retry", "released", "lost", "requeued")):
        op_id = f"run{number}"
        store.admit([offer(op_id)])
        job = store.claim("w", ["normal"], 1)[0]
        assert erased(store, op_id) == {op_id: "running"}
        assert store.renew("w", None, [(op_id, job.epoch, None)])[1] == [op_id]
        if outcome == "retry":
            assert store.admit([offer(op_id, retries=1)])[0].duplicate_of == op_id
        store.settle(
            [Settlement(job.id, job.epoch, outcome, run_ms=1, error=ERROR, result_repr=MARK.decode())]
        )
        ended = store.read_operation(op_id)
        assert ended is not None and ended.deletion == "r1"
        assert ended.status == (outcome if outcome in ("succeeded", "failed") else "cancelled")
        assert not ended.quarantined
        assert MARK not in everything(store)
    audit.check(store)


def test_the_next_of_its_ordering_key_is_let_pass(store: Store) -> None:
    store.admit([offer("k1", ordering_key="k")])
    store.admit([Offer(id="k2", task="t", queue="normal", payload=b"x", ordering_key="k")])
    erased(store, "k1")
    assert [job.id for job in store.claim("w", ["normal"], 5)] == ["k2"]
    assert scripts.unpack(store.client.hget(store.root + "ops", "k1")).get("ok") is None


def test_a_later_link_has_the_tags_of_what_brought_it(store: Store) -> None:
    store.admit([offer("first", links=("second",), payload_class="personal")])
    store.admit([Offer(id="second", task="t", queue="normal", payload=b"x")])
    second = store.read_operation("second")
    assert second is not None
    assert (second.tags, second.payload_class) == ((MARK.decode(),), "personal")


def test_every_record_is_seen_by_a_scan(store: Store) -> None:
    store.publish_policy("bulk", {"max_count": 5000}, version=2)
    store.admit([Offer(id=f"o{n}", task="t", queue="bulk", payload=b"x") for n in range(1500)])
    cursor, seen = 0, set()
    while True:
        cursor, rows = store.scan_records(cursor, count=100)
        seen |= {op_id for op_id, _ in rows}
        if cursor == 0:
            break
    assert len(seen) == 1500


def test_what_is_spilled_keeps_nothing(store: Store) -> None:
    store.publish_policy("bulk", {"max_count": 1, "on_full": "spill", "spill_max_count": 5}, version=2)
    store.admit([Offer(id="first", task="t", queue="bulk", payload=b"x"), offer("spilt", queue="bulk")])
    assert store.read_operation("spilt").phase == "spilled"  # type: ignore[union-attr]
    assert erased(store, "spilt") == {"spilt": "spilled"}
    assert MARK not in everything(store)

"""Do Redis and its file hold ciphertext only, while Celery works as ever?"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator

import pytest
from celery import chain, group

from workers.admission.offers import build_offer
from workers.exceptions import AdmissionRefused
from workers.privacy import seal
from workers.store import Offer, Store

from . import audit
from .bench import Bench
from .test_envelope import APP
from .test_workers import a_name

MARK = "MARKED-s3cret"
KEYS = [base64.urlsafe_b64encode(bytes([n]) * 32).decode() for n in range(1, 4)]


def all_bytes(store: Store) -> bytes:
    found = b""
    for key in store.client.scan_iter("*", count=1000):
        kind = store.client.type(key)
        found += key
        if kind == b"hash":
            found += b"".join(store.client.hvals(key))
        elif kind == b"string":
            found += store.client.get(key)
        elif kind == b"list":
            found += b"".join(store.client.lrange(key, 0, -1))
    return found


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A producer with a new key and an old one, and workers with the same."""
    before = os.environ.get(seal.ENV)
    os.environ[seal.ENV] = f"{KEYS[0]},{KEYS[1]}"
    bench = Bench()
    try:
        bench.start_worker("prefork")
        yield bench
    finally:
        bench.close()
        os.environ.pop(seal.ENV)
        if before is not None:
            os.environ[seal.ENV] = before


def test_jobs_retries_chains_and_groups_work_and_redis_shows_nothing(bench: Bench) -> None:
    note = bench.task("note")
    name = a_name()
    result = note.apply_async((name,), {"value": MARK}, headers={"payload_class": "secret"})
    waiting = note.apply_async((a_name(),), {"value": MARK}, countdown=600)
    assert result.get(timeout=20) == MARK
    assert bench.task("fail_twice").delay(a_name()).get(timeout=30)
    assert chain(note.si(a_name(), value=MARK), note.si(a_name(), value=MARK))().get(timeout=20) == MARK
    assert group(note.si(a_name(), value=MARK) for _ in range(3))().get(timeout=20) == [MARK] * 3
    assert MARK.encode() not in all_bytes(bench.store)
    assert base64.b64encode(MARK.encode())[:12] not in all_bytes(bench.store)
    assert bench.operation(result.id).payload_class == "secret"
    bench.store.cancel(waiting.id, by="test")
    bench.await_rest()
    audit.check(bench.store)


def test_a_payload_whose_key_is_missing_goes_to_quarantine_and_the_worker_lives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(seal.ENV, KEYS[2])
        lost = bench.task("note").delay(a_name(), value=MARK)
    operation = bench.await_status(lost.id, "failed")
    assert operation.quarantine_reason == "missing_key"
    held = next(row for row in bench.store.read_quarantine_spool(100) if row.id == lost.id)
    key_id = seal.id_of(bytes([3]) * 32)
    assert held.error_type == "MissingKey" and key_id in held.message
    assert seal.key_id_of(held.payload) == key_id
    assert bench.task("note").delay(a_name(), value=1).get(timeout=20) == 1
    bench.store.forget_spooled([lost.id])


def test_an_old_key_is_opened_by_a_worker_that_has_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(seal.ENV, KEYS[1])
        old = bench.task("note").delay(a_name(), value=5)
    assert old.get(timeout=20) == 5


def test_a_secret_job_without_a_key_is_refused_with_the_fix(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(seal.ENV)
    with pytest.raises(AdmissionRefused, match="SLUICEGATE_PAYLOAD_KEYS") as refused:
        bench.task("note").apply_async((a_name(),), headers={"payload_class": "secret"})
    assert refused.value.reason == "encryption"


def test_a_ciphertext_under_another_jobs_id_is_not_run(bench: Bench) -> None:
    """Who can write to Redis cannot have one job's arguments run as another's."""
    offer = build_offer(APP, "w.note", [a_name()], {}, queue="normal", tenant="default")
    moved = Offer(id="moved", task="w.note", queue="normal", payload=offer.payload)
    assert bench.store.admit([moved])[0].accepted
    assert bench.await_status("moved", "failed").quarantine_reason == "undecodable"
    bench.store.forget_spooled(["moved"])


def test_a_queue_whose_jobs_are_secret_takes_ciphertext_only(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish_policy("normal", {"payload_class": "secret"}, version=2)
    monkeypatch.delenv(seal.ENV, raising=False)
    bare = build_offer(APP, "t", [MARK], {}, queue="normal", tenant="default")
    assert store.admit([bare])[0].reason == "encryption"
    monkeypatch.setenv(seal.ENV, KEYS[0])
    sealed = build_offer(APP, "t", [MARK], {}, queue="normal", tenant="default")
    assert store.admit([sealed])[0].accepted
    assert MARK.encode() not in all_bytes(store)
    assert store.snapshot()["queues"]["normal"]["bytes"] == len(sealed.payload)


def test_payloads_are_counted_by_key_and_swapped_once(store: Store) -> None:
    rings = [seal.Keyring([bytes([n]) * 32]) for n in (1, 2)]
    store.admit([Offer(id="clear", task="t", queue="normal", payload=b'{"b":1}')])
    store.admit([Offer(id="old", task="t", queue="normal", payload=rings[1].seal(b'{"b":1}', "old"))])
    job = store.claim("w", ["normal"], 1)[0]
    store.admit([Offer(id=job.id, task="t", queue="normal", payload=b'{"b":2}', retries=1)])
    page = store.count_keys("0", current=rings[0].current)
    assert page.after == "0"
    assert page.counts == {"": 2, rings[1].current: 1}
    assert sorted(page.others) == ["clear", "clear:next", "old"]
    for field in page.others:
        op_id = field.removesuffix(":next")
        was = store.read_payload(field)
        assert was is not None
        new = rings[0].seal(rings[1].open(was, op_id), op_id)
        assert store.swap_payload(field, was, new)
        assert not store.swap_payload(field, was, new)
    audit.check(store)
    assert store.count_keys("0").counts == {rings[0].current: 3}
    json.dumps(page.counts)

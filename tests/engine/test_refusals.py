"""How does a producer learn that a job was refused?"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, chain, chord, group, signals
from kombu.exceptions import OperationalError

from tests.support.servers import RedisServer
from tests.support.waiting import wait_until
from workers import install
from workers.exceptions import AdmissionRefused, HookMissing, OfferError, StoreUnavailable
from workers.store import Offer, Settlement, Store

from . import audit
from .bench import ROOT


def do_nothing(*args: Any) -> None:
    pass


@pytest.fixture
def app(broker: str) -> Iterator[Celery]:
    """A hooked application with one task."""
    app = Celery(f"a{uuid.uuid4().hex[:6]}", broker=broker, set_as_current=False)
    app.conf.update(task_default_queue="normal", task_ignore_result=True)
    app.task(name="t")(do_nothing)
    install(app)
    app.amqp  # noqa: B018 made here, so that no test pays for it
    yield app
    app.close()


@pytest.fixture
def full(store: Store) -> Store:
    """The gate with a normal queue that has room for one job."""
    store.publish_policy("normal", {"max_count": 1}, version=2)
    return store


@pytest.fixture
def said() -> Iterator[list[str]]:
    """Ids that Celery said were published."""
    seen: list[str] = []

    def note(sender: Any = None, headers: Any = None, **_: Any) -> None:
        seen.append(headers["id"])

    signals.after_task_publish.connect(note, weak=False)
    yield seen
    signals.after_task_publish.disconnect(note)


def test_delay_raises_what_was_refused_and_why(app: Celery, full: Store) -> None:
    assert app.tasks["t"].delay().id
    with pytest.raises(AdmissionRefused) as caught:
        app.tasks["t"].delay()
    refusal = caught.value
    assert (refusal.queue, refusal.reason) == ("normal", "count")
    assert refusal.retry_after > 0
    assert isinstance(refusal, OperationalError)
    assert full.size("normal") == 1


def test_what_no_time_mends_says_what_does(app: Celery, store: Store) -> None:
    store.publish_policy("normal", {"may_coalesce": False}, version=2)
    with pytest.raises(AdmissionRefused, match="send no coalesce_key") as caught:
        app.tasks["t"].apply_async(headers={"sluicegate": {"coalesce_key": "k"}})
    assert caught.value.reason == "coalescing"


def test_a_refused_job_is_never_said_to_be_sent(app: Celery, full: Store, said: list[str]) -> None:
    sent = app.tasks["t"].delay().id
    for _ in range(3):
        with pytest.raises(AdmissionRefused):
            app.tasks["t"].delay()
    with pytest.raises(AdmissionRefused):
        group([app.tasks["t"].si(n) for n in range(3)], app=app).apply_async()
    assert said == [sent]


def test_every_job_of_an_accepted_group_is_said_to_be_sent_once(
    app: Celery, store: Store, said: list[str]
) -> None:
    result = group([app.tasks["t"].si(n) for n in range(4)], app=app).apply_async()
    assert sorted(said) == sorted(child.id for child in result.children)
    assert store.size("normal") == 4


@pytest.mark.parametrize("kind", ["group", "chord", "group of chains", "chain into a group", "nested"])
def test_a_canvas_is_admitted_whole_or_not_at_all(app: Celery, store: Store, kind: str) -> None:
    app.conf.update(result_backend=app.conf.broker_url, task_ignore_result=False)
    t = app.tasks["t"]

    def canvas() -> Any:
        parts = [t.si(n) for n in range(4)]
        return {
            "group": group(parts, app=app),
            "chord": chord(parts, t.si("body"), app=app),
            "group of chains": group([chain(t.si(n), t.si(n), app=app) for n in range(4)], app=app),
            "chain into a group": group([group(parts[:2], app=app), *parts[2:]], app=app),
            "nested": group(
                [chord(parts[:2], t.si("b"), app=app), chord(parts[2:], t.si("b"), app=app)], app=app
            ),
        }[kind]

    store.publish_policy("normal", {"max_count": 3}, version=2)
    with pytest.raises(AdmissionRefused):
        canvas().apply_async()
    assert store.size("normal") == 0
    assert audit.totals(store, "normal").get("accepted", 0) == 0
    store.publish_policy("normal", {"max_count": 4}, version=3)
    wait_until(lambda: _accepts(canvas), within_s=5, what="the canvas to be accepted")
    assert store.size("normal") == 4


def _accepts(canvas: Any) -> bool:
    try:
        canvas().apply_async()
    except AdmissionRefused:
        return False
    return True


def own_numbers(store: Store, tenant: str) -> dict[str, float]:
    """A tenant's counters: producers of earlier tests may still report theirs."""
    return audit.Contents(store).numbers(f"tenant:normal|{tenant}")


def test_refusals_made_locally_are_counted_within_two_seconds(app: Celery, full: Store) -> None:
    headers = {"tenant": uuid.uuid4().hex}
    app.tasks["t"].delay()
    refused = 0
    for _ in range(200):
        try:
            app.tasks["t"].apply_async(headers=headers)
        except AdmissionRefused:
            refused += 1
    assert refused == 200
    asked = own_numbers(full, headers["tenant"])["refused"]
    assert asked < 200, "every one of them asked Redis"
    wait_until(
        lambda: own_numbers(full, headers["tenant"])["refused"] == 200, within_s=2, what="all to be counted"
    )
    row = own_numbers(full, headers["tenant"])
    assert (row["offered"], row["refused:count"]) == (200, 200)


def test_a_local_refusal_ends_soon_after_there_is_room(app: Celery, full: Store) -> None:
    app.tasks["t"].delay()
    with pytest.raises(AdmissionRefused):
        app.tasks["t"].delay()
    job = full.claim("w", ["normal"])[0]
    full.settle([Settlement(job.id, job.epoch, "succeeded")])
    began = time.monotonic()
    wait_until(lambda: _accepts(lambda: app.tasks["t"].s()), within_s=2, what="the door to open")
    assert time.monotonic() - began < 2.0


def test_a_mode_change_is_seen_by_a_producer_within_two_seconds(app: Celery, store: Store) -> None:
    store.set_mode("*", "draining", by="o", reason="t")
    with pytest.raises(AdmissionRefused) as caught:
        app.tasks["t"].delay()
    assert caught.value.reason == "mode"
    store.set_mode("*", "normal", by="o", reason="t")
    wait_until(lambda: _accepts(lambda: app.tasks["t"].s()), within_s=2, what="the door to open")


def test_one_tenants_refusal_is_not_anothers(app: Celery, store: Store) -> None:
    store.publish_policy("normal", {"max_count": 10, "tenant_share": 0.2}, version=2)
    t = app.tasks["t"]
    for tenant in ("a", "b"):
        for _ in range(2):
            t.apply_async(headers={"tenant": tenant})
    for _ in range(3):
        with pytest.raises(AdmissionRefused):
            t.apply_async(headers={"tenant": "a"})
    assert t.apply_async(headers={"tenant": "c"}).id


def test_the_tenant_of_a_publish_is_its_header(app: Celery, store: Store) -> None:
    op_id = app.tasks["t"].apply_async(headers={"tenant": "acme"}).id
    operation = store.read_operation(op_id)
    assert operation is not None
    assert operation.tenant == "acme"


def test_a_producer_waits_where_the_queue_lets_it_and_no_longer(app: Celery, full: Store) -> None:
    full.publish_policy("normal", {"max_count": 1, "on_full": "block", "block_s": 0.6}, version=3)
    app.tasks["t"].delay()
    began = time.monotonic()
    with pytest.raises(AdmissionRefused):
        app.tasks["t"].delay()
    assert 0.5 <= time.monotonic() - began < 3


def test_a_producer_that_waits_is_woken_by_room(app: Celery, full: Store) -> None:
    full.publish_policy("normal", {"max_count": 1, "on_full": "block", "block_s": 20}, version=3)
    app.tasks["t"].delay()
    for make_room in (
        lambda: full.claim("w", ["normal"], 1),
        lambda: full.purge("normal", by="o"),
        lambda: full.cancel(next(i for i, r in audit.records(full).items() if r["s"] == "waiting"), by="o"),
    ):
        done: list[float] = []
        refused = audit.totals(full, "normal").get("refused", 0)
        waiting = threading.Thread(target=lambda: done.append(app.tasks["t"].delay() and time.monotonic()))  # noqa: B023
        waiting.start()
        wait_until(
            lambda: audit.totals(full, "normal").get("refused", 0) > refused,  # noqa: B023
            within_s=5,
            what="it to wait",
        )
        made = time.monotonic()
        make_room()
        waiting.join(10)
        assert done[0] - made < 0.5
    assert full.size("normal") == 1


def test_only_a_queue_that_lets_producers_wait_tells_of_room(store: Store) -> None:
    store.admit([Offer("one", "t", "normal", b"x")])
    store.claim("w", ["normal"], 1)
    assert not store.client.exists(store.root + "room:normal")


def test_what_is_dropped_in_silence_raises_nothing(app: Celery, full: Store) -> None:
    full.publish_policy("normal", {"max_count": 1, "on_full": "drop_newest"}, version=3)
    for _ in range(3):
        assert app.tasks["t"].delay().id
    assert full.size("normal") == 1


def test_refusing_keeps_the_producers_connection(app: Celery, full: Store) -> None:
    app.tasks["t"].delay()
    made = full.client.info("stats")["total_connections_received"]
    for _ in range(20):
        with pytest.raises(AdmissionRefused):
            app.tasks["t"].apply_async(task_id=str(uuid.uuid4()))  # a given id is asked about each time
    assert full.client.info("stats")["total_connections_received"] - made <= 1


@pytest.mark.parametrize(
    "raised",
    [
        AdmissionRefused("normal", "count", 2.5, "value 3, bound 2"),
        StoreUnavailable("full", "OOM"),
        OfferError("headers.id", "missing", "give one"),
        HookMissing("call install(app)"),
    ],
)
def test_what_is_raised_survives_the_way_between_processes(raised: Exception) -> None:
    again = pickle.loads(pickle.dumps(raised))
    assert type(again) is type(raised)
    assert str(again) == str(raised)
    assert again.__dict__ == raised.__dict__


def test_without_the_hook_a_refused_publish_raises_and_gives_no_id(broker: str, full: Store) -> None:
    bare = Celery("bare", broker=broker, set_as_current=False)
    bare.conf.task_default_queue = "normal"
    assert bare.send_task("t").id
    with pytest.raises((AdmissionRefused, HookMissing)):
        bare.send_task("t")
    assert full.size("normal") == 1
    assert bare.send_task("t", queue="bulk").id
    bare.close()


def test_a_publish_fails_within_two_seconds_while_redis_hangs(
    broker: str, app: Celery, redis_server: RedisServer
) -> None:
    app.tasks["t"].delay()
    assert redis_server.process is not None
    os.kill(redis_server.process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises((StoreUnavailable, OperationalError)):
            app.tasks["t"].apply_async(retry=False)
        assert time.monotonic() - began < 2.5
    finally:
        os.kill(redis_server.process.pid, signal.SIGCONT)


def test_a_producer_that_starts_while_redis_hangs_does_not_hang_with_it(
    app: Celery, redis_server: RedisServer
) -> None:
    assert redis_server.process is not None
    os.kill(redis_server.process.pid, signal.SIGSTOP)
    ended: list[BaseException] = []

    def publish() -> None:
        with pytest.raises((StoreUnavailable, OperationalError)) as caught:
            app.tasks["t"].delay()
        ended.append(caught.value)

    thread = threading.Thread(target=publish, daemon=True)
    try:
        thread.start()
        thread.join(30)
        assert ended, "it still waits"
    finally:
        os.kill(redis_server.process.pid, signal.SIGCONT)
    thread.join(30)
    assert app.tasks["t"].delay().id


def test_what_was_given_up_while_redis_hung_does_not_run_later(
    app: Celery, store: Store, redis_server: RedisServer
) -> None:
    app.tasks["t"].delay()
    assert redis_server.process is not None
    os.kill(redis_server.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises((StoreUnavailable, OperationalError)):
            app.tasks["t"].apply_async(retry=False)
        given_up_at = time.monotonic()
        wait_until(lambda: time.monotonic() - given_up_at > 0.5, what="the limit to pass")
    finally:
        os.kill(redis_server.process.pid, signal.SIGCONT)
    wait_until(lambda: store.client.ping(), what="Redis to be back")
    assert store.size("normal") == 1


def test_a_producers_last_local_refusals_are_counted_when_it_ends(broker: str, full: Store) -> None:
    script = f"""
from celery import Celery
from workers import AdmissionRefused, install
app = Celery("p", broker={broker!r}); app.conf.task_default_queue = "normal"
install(app)
for _ in range(50):
    try:
        app.send_task("t", headers={{"tenant": "short-lived"}})
    except AdmissionRefused:
        pass
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60, stdin=subprocess.DEVNULL)
    assert own_numbers(full, "short-lived")["offered"] == 50

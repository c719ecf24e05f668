"""Are credits never minted twice, all accounted for, and free on the way of a job?"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from typing import Any

import pytest
from celery import Celery

from tests.support.waiting import wait_until
from workers.admission.policy import parse_policy
from workers.exceptions import AdmissionRefused
from workers.limits.producer import Producer
from workers.store import Store
from workers.store.offers import Ask, Grant

from . import audit
from .bench import ROOT
from .test_admission import an_offer
from .test_races import all_at_once
from .test_refusals import app  # noqa: F401


def ask(store: Store, producer: str = "p", epoch: int = 1, used: int = 0, **facts: Any) -> Grant:
    grant = store.admit([an_offer(ask=Ask(producer, epoch, used), **facts)])[0].grant
    assert grant is not None
    return grant


def credits_of(store: Store, queue: str = "normal") -> dict[str, int]:
    found: dict[str, int] = store.snapshot()["queues"][queue]["credits"]
    return found


def test_a_grant_is_small_and_no_larger_than_what_there_is_room_for(store: Store) -> None:
    store.publish_policy("normal", {}, version=2)
    assert ask(store).credits == 256
    store.publish_policy("bulk", {"max_count": 21}, version=3)
    grants = [store.admit([an_offer("bulk", ask=Ask(f"p{n}", 1, 0))])[0].grant for n in range(6)]
    sizes = [grant.credits for grant in grants if grant]
    assert len(sizes) == 6
    assert sum(sizes) <= 21 + 5  # each gets one at least, to look with
    assert min(sizes) >= 1


def test_asking_again_replaces_the_grant_and_mints_nothing(store: Store) -> None:
    for _ in range(5):
        first = ask(store)
    assert credits_of(store) == {"granted": 40 - 1, "used": 0, "returned": 4, "expired": 0, "out": 35}
    assert first.credits == 35


def test_what_was_used_is_told_with_the_next_question(store: Store) -> None:
    store.publish_policy("normal", {}, version=2)
    ask(store)
    ask(store, used=100)
    assert credits_of(store) == {"granted": 356, "used": 100, "returned": 0, "expired": 0, "out": 256}
    ask(store, used=1000)  # nobody can have used more than it held
    assert credits_of(store)["used"] == 356


def test_a_producer_that_began_anew_gets_one_grant_and_its_older_self_none(store: Store) -> None:
    store.publish_policy("normal", {}, version=2)
    ask(store, epoch=5)
    ask(store, epoch=6)
    assert credits_of(store) == {"granted": 512, "used": 0, "returned": 0, "expired": 256, "out": 256}
    assert store.admit([an_offer(ask=Ask("p", 5, 0))])[0].grant is None
    assert credits_of(store)["out"] == 256


def test_credits_run_out_by_themselves(store: Store) -> None:
    store.publish_policy("normal", {}, version=2)
    ask(store, "gone")
    store.client.zadd(store.root + "credits:until:normal", {"gone": 1})
    assert ask(store, "here").producers == 1
    assert credits_of(store)["expired"] == 256
    store.client.zadd(store.root + "credits:until:normal", {"here": 1})
    store.sweep(["normal"])
    assert credits_of(store)["out"] == 0
    assert store.snapshot()["queues"]["normal"]["producers"] == 0


def test_the_refused_are_told_how_long_it_is_closed_by_the_rate_of_the_core(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)
    assert ask(store).credits == 1  # there is no room any more, but each may look
    closed = ask(store)
    assert (closed.credits, closed.reason, closed.closed_s) == (0, "count", 0.1)
    store.publish_model("normal", {"service_rate_per_s": 4.0})
    assert ask(store).closed_s == 0.25
    store.publish_model("normal", {"service_rate_per_s": 0.01})
    assert ask(store).closed_s == 1.0  # never beyond: a changed mode must be seen
    store.set_mode("normal", "draining", by="o", reason="r")
    assert ask(store).reason == "mode"


@pytest.mark.parametrize("on_full", ["block", "drop_newest", "drop_oldest", "sample"])
def test_where_a_full_queue_does_not_refuse_credits_hold_nobody_back(store: Store, on_full: str) -> None:
    policy = {"max_count": 1, "on_full": on_full, "block_s": 1, "sample_rate": 0.1}
    store.publish_policy("normal", policy, version=2)
    ask(store)
    assert ask(store).credits == 256


def test_racing_producers_are_never_granted_more_than_the_room_and_one_each(
    store: Store, redis_url: str
) -> None:
    store.publish_policy("normal", {"max_count": 1000}, version=2)
    producers = [Producer() for _ in range(16)]
    for number, producer in enumerate(producers):
        producer.name = producer.credits.producer = f"p{number}"

    def left() -> int:
        return sum(held.left for p in producers for held in list(p.credits._held.values()))

    def produce(number: int) -> int:
        def work(own: Store, index: int) -> int:
            return sum(producers[index].admit([an_offer()], own.admit)[0].accepted for _ in range(number))

        return sum(all_at_once(redis_url, 16, work))

    assert produce(1) == 16
    assert 900 < left() <= 1000 + 16
    assert produce(59) == 944
    for producer in producers:
        producer.end(store)
    told = credits_of(store)
    assert told["out"] == 0
    assert told["granted"] == told["used"] + told["returned"]
    assert told["used"] >= 900  # all but what was attempted before the first answers


def test_a_process_gives_its_credits_back_when_it_ends(broker: str, store: Store) -> None:
    script = f"""
        from celery import Celery
        from workers import install
        app = install(Celery("x", broker={broker!r}, set_as_current=False))
        app.conf.update(task_default_queue="normal", task_ignore_result=True)
        for _ in range(3): app.send_task("t")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, check=True, timeout=60)
    told = credits_of(store)
    assert (told["out"], told["used"]) == (0, 2)
    assert told["returned"] == told["granted"] - 2 > 0


def test_one_that_is_killed_loses_them_with_their_time(broker: str, store: Store) -> None:
    script = f"""
        import os
        from celery import Celery
        from workers import install
        app = install(Celery("x", broker={broker!r}, set_as_current=False))
        app.conf.update(task_default_queue="normal", task_ignore_result=True)
        app.send_task("t")
        os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, check=False, timeout=60)
    assert credits_of(store)["out"] > 0
    for name, _ in store.client.zscan_iter(store.root + "credits:until:normal"):
        store.client.zadd(store.root + "credits:until:normal", {name: 1})
    store.sweep(["normal"])
    assert (credits_of(store)["out"], credits_of(store)["returned"]) == (0, 0)


def test_delay_makes_one_round_trip_and_no_more_commands_for_its_credits(
    app: Celery,  # noqa: F811
    store: Store,
) -> None:
    store.publish_policy("normal", {}, version=2)
    app.tasks["t"].delay()
    store.client.config_resetstat()
    for _ in range(50):
        app.tasks["t"].delay()
    stats = store.client.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == 50
    assert "cmdstat_zrangebyscore" not in stats  # what a question for credits does first


def test_a_producer_that_was_refused_stays_away_as_long_as_it_was_told(app: Celery, store: Store) -> None:  # noqa: F811
    store.publish_policy("normal", {"max_count": 1}, version=2)
    store.publish_model("normal", {"service_rate_per_s": 2.0})
    t, tenants = app.tasks["t"], [f"t{n}" for n in range(50)]
    t.apply_async(headers={"tenant": "first"})
    store.client.config_resetstat()
    told = Counter()
    for tenant in tenants:
        with pytest.raises(AdmissionRefused) as caught:
            t.apply_async(headers={"tenant": tenant})
        told[caught.value.reason] += 1
    assert told == {"count": 50}
    calls = store.client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert calls < 10  # the others were refused by the process itself
    wait_until(lambda: audit.totals(store, "normal")["refused:count"] == 50, within_s=5, what="the report")


def test_threads_beyond_the_grant_are_refused_here_and_the_bound_holds(app: Celery, store: Store) -> None:  # noqa: F811
    store.publish_policy("normal", {"max_count": 30}, version=2)
    told: Counter[str] = Counter()

    def produce() -> None:
        for _ in range(10):
            try:
                app.tasks["t"].delay()
                told["accepted"] += 1
            except AdmissionRefused as refused:
                told[refused.reason] += 1

    threads = [threading.Thread(target=produce) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told["accepted"] + told["count"] == 80
    assert store.size("normal") == told["accepted"] <= 30


def test_a_wait_for_room_is_counted_and_shown_while_it_lasts(app: Celery, store: Store) -> None:  # noqa: F811
    store.publish_policy("normal", {"max_count": 1, "on_full": "block", "block_s": 20}, version=2)
    app.tasks["t"].delay()
    waiting = threading.Thread(target=app.tasks["t"].delay)
    waiting.start()
    wait_until(lambda: store.snapshot()["holds"], within_s=5, what="it to be shown")
    assert store.snapshot()["holds"] == [{"door": 0, "blocked": {"normal": 1}}]
    began = time.monotonic()
    store.claim("w", ["normal"], 1)
    waiting.join(10)
    wait_until(lambda: store.snapshot()["queues"]["normal"]["blocked_ms"] > 0, within_s=5, what="the sum")
    assert store.snapshot()["queues"]["normal"]["blocked_ms"] < 1000 * (time.monotonic() - began) + 5000
    wait_until(lambda: not store.snapshot()["holds"], within_s=5, what="it to be gone")


def test_a_limit_that_is_counted_locally_costs_no_round_trip_to_refuse(app: Celery, store: Store) -> None:  # noqa: F811
    limit = {"per": "tenant", "limit": 5, "window_s": 3600, "where": "local"}
    store.publish_policy("normal", parse_policy({"rate_limits": [limit]}).as_fields(), version=2)
    headers = {"tenant": "a"}
    told = Counter[str]()
    for _ in range(20):
        try:
            app.tasks["t"].apply_async(headers=headers)
            told["accepted"] += 1
        except AdmissionRefused as refused:
            told[f"{refused.reason}, {refused.retry_after > 100}"] += 1
    assert told == {"accepted": 6, "rate, True": 14}  # the first was made before the limit was known
    assert app.tasks["t"].apply_async(headers={"tenant": "b"}).id
    wait_until(lambda: audit.totals(store, "normal").get("refused:rate") == 14, within_s=5, what="the report")
    store.publish_policy("normal", {}, version=3)
    wait_until(lambda: app.tasks["t"].apply_async(headers=headers), within_s=8, what="the change to be seen")
    assert store.snapshot()["queues"]["normal"]["producers"] == 1


def test_a_forked_process_is_a_producer_of_its_own(app: Celery, store: Store) -> None:  # noqa: F811
    app.tasks["t"].delay()
    assert app.send_task.producer is not None
    pid = os.fork()
    if pid == 0:
        os._exit(0 if app.send_task.producer is None else 1)
    assert os.waitpid(pid, 0)[1] == 0

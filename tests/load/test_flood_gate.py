"""Do a flood's sums agree with the gate's own, through a real Redis?"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest
from celery import Celery

from config.locations import broker_url
from workers import install
from workers.admission.policy import parse_policy
from workers.flood.arrivals import Mix, arrive_constantly
from workers.flood.doors import CeleryDoor
from workers.flood.run import Flood, Polite, Rude
from workers.flood.watch import Watch
from workers.store import Store

MIX = Mix("drill.echo", {"bulk": 1}, {"acme": 1}, args=["x" * 100])


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    app = install(Celery("flood", broker=broker_url(redis_url), set_as_current=False))
    yield app
    app.close()


def test_a_rude_flood_is_counted_the_same_on_both_sides_of_the_door(app: Celery, store: Store) -> None:
    store.publish_policy("bulk", parse_policy({"max_count": 20}).as_fields(), version=1)
    watch = Watch(store)
    watch.start()
    flood = Flood(CeleryDoor(app), Rude(), senders=2)
    flood.run(arrive_constantly(MIX, 200, count=100, duration_s=None, source=random.Random(1)))
    board = flood.scoreboard.as_document()
    # Refusals made locally are reported within 2 s.
    give_up_at = time.monotonic() + 5
    while store.snapshot()["queues"]["bulk"]["totals"]["offered"] < 100 and time.monotonic() < give_up_at:
        time.sleep(0.1)
    time.sleep(0.2)
    watch.stop()
    seen = watch.as_document()["queues"]["bulk"]
    assert (board["accepted"], board["refused"], board["failed"]) == (20, 80, 0)
    assert board["refused_by"] == {"count": 80}
    assert {name: seen["gained"][name] for name in ("offered", "accepted", "refused")} == {
        "offered": 100,
        "accepted": 20,
        "refused": 80,
    }
    assert seen["peak"]["depth"] == 20


def test_a_polite_flood_is_accepted_in_the_end_once_there_is_room(app: Celery, store: Store) -> None:
    store.publish_policy("bulk", parse_policy({"max_count": 5}).as_fields(), version=1)
    flood = Flood(CeleryDoor(app), Polite(60, random.Random(1)), senders=2)

    def make_room() -> None:
        store.publish_policy("bulk", parse_policy({"max_count": 500}).as_fields(), version=2)

    arrivals = arrive_constantly(MIX, 200, count=20, duration_s=None, source=random.Random(1))
    timer = threading.Timer(0.5, make_room)
    timer.start()
    flood.run(arrivals)
    timer.join()
    board = flood.scoreboard.as_document()
    assert (board["accepted"], board["accepted_at_once"], board["still_open"]) == (20, 5, 0)
    assert board["honoured_retry_afters"] == board["refused"] >= 15
    assert store.snapshot()["queues"]["bulk"]["depth"] == 20

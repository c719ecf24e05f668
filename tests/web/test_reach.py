"""While Redis hangs, does one caller find out for all?"""

from __future__ import annotations

import threading
import time

import pytest

from queues_ui.access.desk import DatabaseAway
from queues_ui.queries import known_queues, reach
from workers.exceptions import StoreUnavailable
from workers.store import Store


def test_after_a_failure_the_others_are_told_at_once(monkeypatch):
    breaker = reach.Breaker()
    breaker.enter()
    breaker.fail(StoreUnavailable("timeout"))
    started = time.monotonic()
    for _ in range(50):
        with pytest.raises(StoreUnavailable):
            breaker.enter()
    assert time.monotonic() - started < 0.4


def test_then_one_tries_and_a_success_lets_all_in(monkeypatch):
    monkeypatch.setattr(reach, "QUIET_S", 0.0)
    breaker = reach.Breaker()
    breaker.fail(StoreUnavailable("down"))
    breaker.enter()  # the one that tries
    outcomes: list[str] = []

    def other() -> None:
        try:
            breaker.enter()
            outcomes.append("in")
        except StoreUnavailable as fault:
            outcomes.append(fault.reason)

    waiting = threading.Thread(target=other)
    waiting.start()
    breaker.close()
    waiting.join()
    assert outcomes == ["in"]


def test_a_full_redis_is_no_reason_to_turn_readers_away():
    breaker = reach.Breaker()
    breaker.fail(StoreUnavailable("full"))
    breaker.enter()


def test_a_queue_made_a_moment_ago_is_known_while_the_database_is_away(gate: Store, monkeypatch) -> None:
    def be_away(_: object) -> None:
        raise DatabaseAway("gone")

    assert known_queues.has_policy("normal")
    gate.publish_policy("fresh", {"weight": 1}, version=1)
    monkeypatch.setattr(known_queues.desk, "ask", be_away)
    assert known_queues.has_policy("fresh")
    assert known_queues.has_policy("normal")
    assert not known_queues.has_policy("nowhere")

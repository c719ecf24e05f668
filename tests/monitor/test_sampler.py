"""Does a frame come every second, go on after a change of leader, and say what it could not read?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import OperationalError

from tests.monitor.conftest import Sampled, fail_jobs, make_offer
from workers.actions import replay
from workers.actions.actor import Actor
from workers.exceptions import StoreUnavailable
from workers.loops import facts as facts_module
from workers.loops.facts import Facts, read_facts
from workers.loops.modeler import Modeler
from workers.loops.recorder import Recorder
from workers.models import Alert, AlertRule, Transition
from workers.store import Store


def test_a_frame_is_stored_and_broadcast(gate: Store, sampled: Sampled) -> None:
    gate.admit([make_offer(1), make_offer(2, delay_ms=60_000)])
    sampled.sampler.tick()
    stored = json.loads(gate.read_frame() or "")
    assert stored == sampled.sent[0]
    row = next(row for row in stored["queues"] if row["name"] == "normal")
    assert (row["depth"], row["delayed"], row["totals"]["accepted"]) == (1, 1, 2)
    assert row["state"] == "stalled"


def test_a_new_leader_goes_on_with_the_sequence(gate: Store, sampled: Sampled) -> None:
    sampled.sampler.tick()
    sampled.sampler.tick()
    other = Sampled(gate)
    other.sampler.tick()
    assert [frame["seq"] for frame in sampled.sent + other.sent] == [1, 2, 3]


def test_a_full_redis_still_passes_the_frame_on(gate: Store, sampled: Sampled, monkeypatch: Any) -> None:
    def refuse(frame: str) -> None:
        raise StoreUnavailable("full", "used memory is at maxmemory")

    monkeypatch.setattr(gate, "put_frame", refuse)
    sampled.sampler.tick()
    assert len(sampled.sent) == 1
    assert sampled.sampler.health["state"] == "full"


def test_a_redis_that_is_away_leaves_the_last_frame_and_notes_since_when(
    gate: Store, sampled: Sampled, monkeypatch: Any
) -> None:
    sampled.sampler.tick()

    def away(**more: Any) -> None:
        raise StoreUnavailable("down", "no such file")

    monkeypatch.setattr(gate, "snapshot", away)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            sampled.sampler.tick()
    assert len(sampled.sent) == 1
    assert sampled.sampler.health["state"] == "down"
    assert sampled.sampler.health["since_at_ms"] >= sampled.sent[0]["at_ms"]


def test_a_broadcast_that_fails_stops_neither_storing_nor_history(gate: Store, sampled: Sampled) -> None:
    heard: list[int] = []

    def fail(text: str) -> None:
        raise TimeoutError

    sampled.sampler._broadcast = fail
    sampled.sampler._listeners = (lambda frame, snapshot: heard.append(frame["seq"]),)
    sampled.sampler.tick()
    assert heard == [1]
    assert gate.read_frame()


def test_the_database_s_part_is_shown_and_its_absence_said(gate: Store, monkeypatch: Any) -> None:
    fail_jobs(gate, 3)
    Recorder(gate).tick()
    rule = AlertRule.objects.create(name="r", measure="quarantine_count", threshold=2, clear_threshold=1)
    now_ms = gate.clock.now_ms()
    Alert.objects.create(rule=rule, fired_at_ms=now_ms, value=3, peak=3, threshold=2)
    Transition.objects.create(
        scope="*", before="normal", after="draining", by="ada", reason="deploy", at_ms=now_ms + 1
    )
    replay.execute(Actor("ada", "operator", "page"), now_ms=now_ms, ids=["job-0"])
    found = read_facts(now_ms + 10)
    assert found.quarantine is not None
    assert found.quarantine["count"] == 2
    cause = found.quarantine["causes"][0]
    assert (cause["count"], cause["task"], sum(cause["trend"])) == (2, "drill.fail", 2)
    assert "customer" in cause["label"]
    assert found.alerts[0]["sentence"] == "the gate: 3 jobs are in quarantine, the rule says 2."
    assert {event["kind"] for event in found.events} == {"mode", "alert", "replay"}

    def refuse(now_ms: int) -> None:
        raise OperationalError("away")

    reader = Facts()
    monkeypatch.setattr(facts_module, "read_facts", refuse)
    reader.tick()
    assert reader.current().unknown == "not read yet"
    frame = Sampled(gate, reader.current()).latest()
    assert frame is not None
    assert frame[0]["quarantine"]["unknown"]["count"] == "not read yet"


def test_the_admit_script_learns_how_fast_a_queue_is_served(gate: Store, sampled: Sampled) -> None:
    gate.renew("w1@host", {"slots": 4, "queues": ["normal", "bulk"], "pool": "prefork"}, [])
    gate.admit([make_offer(number, cost_ms=200) for number in range(200)])
    modeler = Modeler(gate, sampled.sampler.copy_history)
    stood = 4000.0  # the prior: four slots
    for _ in range(8):
        sampled.sampler.tick()
        modeler.tick()
        now = gate.snapshot()["queues"]["bulk"]["model"]["work_rate"]
        assert 0.8 * stood - 0.01 <= now <= stood  # it never jumps
        stood = now
    queues = gate.snapshot()["queues"]
    assert queues["normal"]["model"] == {
        "service_rate_per_s": 20.0,
        "work_rate": 4000.0,
        "job_rate": 20.0,
        "least_wait_s": 0.2,
        "downstream_share": 1.0,
        "seconds_to_drain": 10.0,
    }
    assert queues["bulk"]["model"]["work_rate"] == 1000.0  # a quarter: normal has a backlog and weighs three
    # No worker: the prior stands, and no bound becomes zero.
    assert queues["critical"]["model"] == {"work_rate": 4000.0, "job_rate": 40.0, "least_wait_s": 0.1}

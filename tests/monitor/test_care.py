"""Do the small loops that keep the gate in order each do their step?"""

from __future__ import annotations

import base64
import json
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.monitor.conftest import Sampled, fail_jobs, make_offer
from workers.loops.inlet import Inlet
from workers.loops.publisher import Publisher
from workers.loops.reaper import Promoter, Reaper, Sweeper
from workers.loops.recorder import Recorder
from workers.loops.retention import Retention
from workers.models import Alert, AlertRule, JournalEntry, QuarantinedJob, Transition
from workers.store import Store

pytestmark = pytest.mark.database


def stock_message(task: str = "drill.echo") -> bytes:
    op_id = str(uuid.uuid4())
    return json.dumps(
        {
            "body": base64.b64encode(b'[["x"], {}, {}]').decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"id": op_id, "task": task, "lang": "py", "root_id": op_id},
            "properties": {"correlation_id": op_id, "delivery_tag": op_id, "body_encoding": "base64"},
        }
    ).encode()


def test_what_stock_producers_pushed_is_admitted_and_the_unreadable_held(
    gate: Store, sampled: Sampled
) -> None:
    gate.client.lpush("celery", stock_message(), b"not-json", stock_message())
    sampled.sampler.tick()
    assert sampled.sampler.queues_with("inlet") == ["normal"]
    Inlet(gate, lambda: sampled.sampler.queues_with("inlet")).tick()
    queue = gate.snapshot()["queues"]["normal"]
    assert (queue["depth"], queue["inlet"], queue["totals"]["quarantined"]) == (2, 0, 1)


def test_a_refused_stock_message_is_left_and_not_asked_for_at_every_step(gate: Store) -> None:
    policy = gate.read_policies()["normal"]
    gate.publish_policy("normal", {**policy, "max_count": 1}, version=2)
    gate.client.lpush("normal", stock_message(), stock_message())
    inlet = Inlet(gate, lambda: ["normal"])
    for _ in range(5):
        inlet.tick()
    queue = gate.snapshot()["queues"]["normal"]
    assert (queue["depth"], queue["inlet"], queue["totals"]["refused"]) == (1, 1, 1)


def test_a_job_whose_lease_ran_out_comes_back(gate: Store) -> None:
    policy = gate.read_policies()["normal"]
    gate.publish_policy("normal", {**policy, "lease_s": 0.001}, version=2)
    gate.admit([make_offer(1)])
    assert gate.claim("w1@host", ["normal"])
    while gate.snapshot()["queues"]["normal"]["in_flight"]:
        assert Reaper(gate).tick() is False
    queue = gate.snapshot()["queues"]["normal"]
    assert (queue["depth"], queue["totals"]["redelivered"]) == (1, 1)


def test_due_jobs_move_up_and_sweeping_finds_nothing_to_do(gate: Store) -> None:
    gate.admit([make_offer(1, delay_ms=1)])
    promoter = Promoter(gate, lambda: ["normal"])
    while gate.snapshot()["queues"]["normal"]["delayed"]:
        promoter.tick()
    assert gate.snapshot()["queues"]["normal"]["depth"] == 1
    assert Sweeper(gate, lambda: ["normal"]).tick() is False


def test_policies_and_an_operators_mode_come_back_after_redis_lost_them(gate: Store) -> None:
    publisher = Publisher(gate)
    publisher.tick()
    Transition.objects.create(
        scope="*", before="normal", after="draining", by="ada", reason="deploy", at_ms=1, until="drained"
    )
    gate.client.flushdb()
    gate.snapshot()
    publisher.tick()
    assert set(gate.read_policies()) == {"critical", "urgent", "normal", "bulk"}
    mode = gate.read_modes()["*"]
    assert (mode["mode"], mode["by"], mode["until"], mode["automatic"]) == (
        "draining",
        "ada",
        "drained",
        False,
    )


def test_what_is_past_its_time_goes_and_the_quarantine_says_so(gate: Store) -> None:
    fail_jobs(gate, 3)
    Recorder(gate).tick()
    QuarantinedJob.objects.filter(op_id="job-0").update(quarantined_at_ms=1)
    old = JournalEntry.objects.create(actor="x", role="x", via="x", verb="x", outcome="done")
    JournalEntry.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(days=400))
    rule = AlertRule.objects.create(name="r", measure="depth", threshold=2, clear_threshold=1)
    Alert.objects.create(rule=rule, fired_at_ms=1, cleared_at_ms=2)
    Alert.objects.create(rule=rule, fired_at_ms=1)
    Retention(gate).tick()
    assert set(QuarantinedJob.objects.values_list("op_id", flat=True)) == {"job-1", "job-2"}
    assert not JournalEntry.objects.filter(pk=old.pk).exists()
    assert JournalEntry.objects.get(verb="drop_quarantined").target == "normal"
    assert Alert.objects.count() == 1

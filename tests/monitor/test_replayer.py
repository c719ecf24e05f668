"""Is each quarantined job replayed once, at its rate, through admission?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.monitor.conftest import Sampled, fail_jobs, fail_waiting
from workers.actions import change_batch, replay
from workers.actions.actor import Actor
from workers.exceptions import StoreUnavailable
from workers.loops import replayer as module
from workers.loops.recorder import Recorder
from workers.loops.replayer import Replayer
from workers.models import QuarantinedJob, ReplayBatch, ReplayItem
from workers.store import Store

pytestmark = pytest.mark.database

OPERATOR = Actor("ada", "operator", "page")


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def held(store: Store, count: int) -> None:
    fail_jobs(store, count)
    while Recorder(store).tick():
        pass


def start(store: Store, **more: Any) -> ReplayBatch:
    done = replay.execute(OPERATOR, now_ms=store.clock.now_ms(), wanted={"queue": "normal"}, **more)
    return ReplayBatch.objects.get(pk=done.target)


def play(replayer: Replayer, time: Time, seconds: float, *, step_s: float = 0.2) -> None:
    for _ in range(round(seconds / step_s)):
        time.now += step_s
        replayer.tick()


def totals(store: Store) -> dict[str, int]:
    found: dict[str, int] = store.snapshot()["queues"]["normal"]["totals"]
    return found


def test_all_are_replayed_at_the_rate_and_none_twice(gate: Store, sampled: Sampled, time: Time) -> None:
    held(gate, 100)
    batch = start(gate, rate_per_s=20)
    assert start(gate, rate_per_s=20).total == 0  # a double click finds nothing left
    replayer = Replayer(gate, sampled.latest, clock=time)
    replayer.tick()
    play(replayer, time, 2.0)
    batch.refresh_from_db()
    assert batch.done == pytest.approx(40, abs=5)
    play(replayer, time, 4.0)
    batch.refresh_from_db()
    assert (batch.state, batch.done, batch.failed, batch.skipped) == ("done", 100, 0, 0)
    assert totals(gate)["replayed"] == 100
    assert totals(gate)["accepted"] == 200
    job = QuarantinedJob.objects.get(op_id="job-0")
    assert job.state == "replayed"
    first, second = gate.read_operation("job-0"), gate.read_operation(job.replayed_as)
    assert first is not None
    assert second is not None
    assert first.replayed_as == second.id
    assert second.replay_of == "job-0"


def test_killed_between_admission_and_the_database_it_doubles_nothing(
    gate: Store, sampled: Sampled, time: Time, monkeypatch: Any
) -> None:
    held(gate, 30)
    batch = start(gate, rate_per_s=100)
    replayer = Replayer(gate, sampled.latest, clock=time)
    replayer.tick()

    class Killed(Exception):
        pass

    def die(*args: Any, **kwargs: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "settle", die)
        time.now += 0.2
        with pytest.raises(Killed):
            replayer.tick()
    assert totals(gate)["replayed"] == 20
    second = Replayer(gate, sampled.latest, clock=time)
    second.tick()
    play(second, time, 1.0)
    batch.refresh_from_db()
    assert (batch.state, batch.done) == ("done", 30)
    assert totals(gate)["replayed"] == 30


def test_those_that_fail_again_are_not_swept_up_by_the_same_run(
    gate: Store, sampled: Sampled, time: Time
) -> None:
    held(gate, 20)
    batch = start(gate, rate_per_s=100)
    replayer = Replayer(gate, sampled.latest, clock=time)
    for _ in range(10):
        play(replayer, time, 0.2)
        fail_waiting(gate)
        Recorder(gate).tick()
    batch.refresh_from_db()
    assert (batch.state, batch.done) == ("done", 20)
    assert QuarantinedJob.objects.filter(state="held").count() == 20
    assert QuarantinedJob.objects.filter(state="replayed").count() == 20


def test_a_refusal_waits_for_its_time_and_is_no_failure(gate: Store, sampled: Sampled, time: Time) -> None:
    held(gate, 10)
    policy = gate.read_policies()["normal"]
    gate.publish_policy("normal", {**policy, "max_count": 4}, version=2)
    batch = start(gate, rate_per_s=100)
    replayer = Replayer(gate, sampled.latest, clock=time)
    play(replayer, time, 1.0)
    batch.refresh_from_db()
    assert (batch.state, batch.done, batch.failed) == ("running", 4, 0)
    gate.publish_policy("normal", policy, version=3)
    play(replayer, time, 40.0, step_s=1.0)
    batch.refresh_from_db()
    assert (batch.state, batch.done) == ("done", 10)


def test_replays_are_paused_while_draining_and_say_so(gate: Store, sampled: Sampled, time: Time) -> None:
    held(gate, 5)
    batch = start(gate, rate_per_s=100)
    gate.set_mode("*", "draining", by="ada", reason="deploy")
    replayer = Replayer(gate, sampled.latest, clock=time)
    play(replayer, time, 3.0)
    batch.refresh_from_db()
    assert (batch.state, batch.done, batch.note) == ("running", 0, "waits: normal is draining")
    gate.set_mode("*", "normal", by="ada", reason="done")
    play(replayer, time, 3.0)
    batch.refresh_from_db()
    assert (batch.state, batch.done, batch.note) == ("done", 5, "")


def test_five_failures_in_a_row_stop_the_batch_and_release_the_rest(
    gate: Store, sampled: Sampled, time: Time
) -> None:
    held(gate, 20)
    QuarantinedJob.objects.update(payload=b"not-json")
    batch = start(gate, rate_per_s=100)
    play(Replayer(gate, sampled.latest, clock=time), time, 1.0)
    batch.refresh_from_db()
    assert (batch.state, batch.failed, batch.skipped, batch.done) == ("stopped", 5, 15, 0)
    assert "5 failures in a row" in batch.note
    assert QuarantinedJob.objects.filter(state="held").count() == 20


def test_a_job_past_its_business_moment_is_skipped_without_an_override(
    gate: Store, sampled: Sampled, time: Time
) -> None:
    held(gate, 2)
    batch = start(gate, rate_per_s=100)
    QuarantinedJob.objects.filter(op_id="job-0").update(replay_until_at_ms=1)
    play(Replayer(gate, sampled.latest, clock=time), time, 1.0)
    batch.refresh_from_db()
    assert (batch.state, batch.done, batch.skipped) == ("done", 1, 1)
    assert QuarantinedJob.objects.get(op_id="job-0").state == "held"


def test_a_batch_that_was_stopped_or_paused_goes_no_further(
    gate: Store, sampled: Sampled, time: Time
) -> None:
    held(gate, 10)
    batch = start(gate, rate_per_s=10)
    replayer = Replayer(gate, sampled.latest, clock=time)
    replayer.tick()
    play(replayer, time, 0.4)
    change_batch.execute(OPERATOR, batch_id=str(batch.pk), state="paused")
    play(replayer, time, 2.0)
    done = ReplayBatch.objects.get(pk=batch.pk).done
    assert done < 10
    change_batch.execute(OPERATOR, batch_id=str(batch.pk), state="stopped")
    play(replayer, time, 2.0)
    assert ReplayItem.objects.filter(batch=batch, state="done").count() == done


def test_a_redis_that_is_away_leaves_the_batch_as_it_is(
    gate: Store, sampled: Sampled, time: Time, monkeypatch: Any
) -> None:
    held(gate, 5)
    batch = start(gate, rate_per_s=100)
    replayer = Replayer(gate, sampled.latest, clock=time)
    replayer.tick()

    def away(*args: Any, **kwargs: Any) -> Callable[..., None]:
        raise StoreUnavailable("down")

    with monkeypatch.context() as patch:
        patch.setattr(gate, "admit", away)
        time.now += 0.2
        with pytest.raises(StoreUnavailable):
            replayer.tick()
    play(replayer, time, 1.0)
    batch.refresh_from_db()
    assert (batch.state, batch.done, batch.failed) == ("done", 5, 0)

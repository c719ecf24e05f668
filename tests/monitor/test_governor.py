"""Is every change of mode applied, written down, and kept off what an operator set?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from tests.monitor.conftest import make_offer
from workers.exceptions import StoreUnavailable
from workers.loops.frame.build import build_frame
from workers.loops.frame.inputs import Context, Memory
from workers.loops.governor import Governor
from workers.metrics.history import History
from workers.models import Transition
from workers.store import Store
from workers.store.bins import bin_value_ms

pytestmark = pytest.mark.database


class Room:
    """Frames of a real gate whose clock a test moves: a minute passes in a loop."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.health: dict[str, Any] = {"state": "ok"}
        self.shift_ms = 0
        self.away = False
        self.governor = Governor(store, self.latest, lambda: self.health)

    def latest(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        if self.away:
            return None
        snapshot = self.store.snapshot()
        snapshot["now_ms"] += self.shift_ms
        history = History()
        history.add(snapshot)
        context = Context("test", "main", 1, bin_value_ms, self.health)
        return build_frame(history, context, Memory())[0], snapshot

    def play(self, seconds: int) -> None:
        for _ in range(seconds):
            self.shift_ms += 1000
            self.governor.tick()
            self.governor.write()

    def mode(self, scope: str = "*") -> str:
        return str(self.store.read_modes().get(scope, {}).get("mode", "normal"))


@pytest.fixture
def room(gate: Store) -> Room:
    return Room(gate)


def rows() -> list[tuple[str, str, str]]:
    return [(t.scope, t.before, t.after) for t in Transition.objects.order_by("at_ms", "id")]


def test_an_age_past_its_guard_saturates_the_gate_and_the_figures_are_kept(room: Room) -> None:
    room.store.renew("w", {"host": "h", "pid": 1, "slots": 1, "queues": ["normal"], "held": []}, [])
    room.store.admit([make_offer(1)])
    room.play(80)  # guard 30 s, hold 60 s
    assert room.mode() == "normal"
    room.play(15)
    assert room.mode() == "saturated"
    row = Transition.objects.get()
    assert (row.before, row.after, row.by, row.automatic) == ("normal", "saturated", "monitor", True)
    assert (row.measure, row.threshold) == ("oldest_age_s", 30.0)
    assert row.value is not None
    assert row.value > 30
    assert "normal: oldest" in row.reason
    assert room.store.read_modes()["*"]["figures"]["measure"] == "oldest_age_s"


def test_an_age_in_a_queue_that_nobody_consumes_saturates_nothing(room: Room) -> None:
    room.store.admit([make_offer(1)])
    room.play(200)
    assert (room.mode(), rows()) == ("normal", [])


def test_an_operators_draining_stays_and_one_until_drained_ends(room: Room) -> None:
    room.store.set_mode("*", "draining", by="ada", reason="deploy")
    room.play(100)
    assert (room.mode(), rows()) == ("draining", [])
    room.store.set_mode("*", "draining", by="ada", reason="deploy", until="drained")
    room.play(5)
    assert (room.mode(), rows()) == ("normal", [("*", "draining", "normal")])


def test_a_queues_own_mode_ends_at_its_time(room: Room) -> None:
    until = room.store.snapshot()["now_ms"] + 20_000
    room.store.set_mode("bulk", "draining", by="ada", reason="x", until_at_ms=until)
    room.play(10)
    assert room.mode("bulk") == "draining"
    room.play(15)
    assert room.mode("bulk") == "normal"
    assert rows() == [("bulk", "draining", "normal")]


def test_a_full_redis_is_failed_and_left_when_it_has_room(room: Room) -> None:
    room.play(1)
    room.health = {"state": "full", "since_at_ms": room.store.clock.now_ms()}
    room.play(5)
    assert room.mode() == "failed"
    room.health = {"state": "ok"}
    room.play(15)
    assert room.mode() == "normal"
    assert rows() == [("*", "normal", "failed"), ("*", "failed", "normal")]


def test_an_outage_in_which_nothing_can_be_stored_is_written_down_with_its_end(room: Room) -> None:
    room.play(1)
    room.away = True
    room.health = {"state": "down", "since_at_ms": room.store.clock.now_ms() - 10_000}
    room.play(5)
    room.away, room.health = False, {"state": "ok"}
    room.play(5)
    assert room.mode() == "normal"
    assert rows() == [("*", "normal", "failed"), ("*", "failed", "normal")]


def test_an_outage_says_nothing_over_what_an_operator_set(room: Room) -> None:
    room.store.set_mode("*", "draining", by="ada", reason="deploy")
    room.play(1)
    room.away = True
    room.health = {"state": "down", "since_at_ms": room.store.clock.now_ms() - 10_000}
    room.play(5)
    assert rows() == []


def test_a_mode_that_the_store_refused_is_tried_again_and_written_once(room: Room, monkeypatch: Any) -> None:
    room.play(1)
    room.health = {"state": "full", "since_at_ms": room.store.clock.now_ms() - 10_000}

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise StoreUnavailable("full")

    with monkeypatch.context() as patch:
        patch.setattr(room.store, "set_mode", refuse)
        room.play(3)
    room.play(3)
    assert room.mode() == "failed"
    assert rows() == [("*", "normal", "failed")]


def test_transitions_wait_for_a_database_that_is_away(room: Room, monkeypatch: Any) -> None:
    room.play(1)
    room.health = {"state": "full", "since_at_ms": room.store.clock.now_ms() - 10_000}

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Transition, "save", refuse)
        room.play(3)
    assert room.mode() == "failed"
    assert rows() == []
    room.play(1)
    assert rows() == [("*", "normal", "failed")]

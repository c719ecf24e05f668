"""Does the mode change only when what is measured says so, and say why?"""

from __future__ import annotations

from typing import Any

from workers.modes.controller import Change, Memory, Reading, decide

AUTO = {"mode": "saturated", "automatic": True}
OPERATOR = {"mode": "saturated", "automatic": False, "by": "ada"}


def reading(**changes: Any) -> Reading:
    return Reading(**{"name": "normal", "oldest_age_s": 0.0, "guard_age_s": 30.0, "hold_s": 10.0, **changes})


LATE = reading(oldest_age_s=49.0)
WELL = reading()


def play(
    entry: dict[str, Any] | None,
    seen: Reading,
    seconds: range | list[int],
    *,
    memory: Memory | None = None,
    broken: str = "",
    automatic: bool = True,
) -> tuple[Memory, Change | None, int | None]:
    """Feeds one reading a second until a change; when it came."""
    memory = memory or Memory()
    for second in seconds:
        memory, change = decide(
            memory, [seen], entry, now_ms=1000 * second, broken=broken, automatic=automatic
        )
        if change is not None:
            return memory, change, second
    return memory, None, None


def test_age_past_the_guard_for_the_hold_time_saturates_and_names_the_figures() -> None:
    _, change, at = play(None, LATE, range(30))
    assert change is not None
    assert at == 10
    assert (change.mode, change.measure, change.value, change.threshold) == (
        "saturated",
        "oldest_age_s",
        49.0,
        30.0,
    )
    assert "normal: oldest 49" in change.reason


def test_a_bound_over_its_high_mark_saturates() -> None:
    _, change, _ = play(None, reading(fills={"count": 0.95}), range(30))
    assert change is not None
    assert (change.measure, change.value, change.threshold) == ("count", 0.95, 0.9)


def test_a_shorter_excess_changes_nothing() -> None:
    memory, change, _ = play(None, LATE, range(9))
    memory, change2, _ = play(None, WELL, range(9, 11), memory=memory)
    _, change3, _ = play(None, LATE, range(11, 20), memory=memory)
    assert change is change2 is change3 is None


STALLED = reading(name="reports", oldest_age_s=4_000.0, left=1, consumers=0, is_stalled=True)


def test_a_queue_that_nobody_consumes_neither_saturates_the_gate_nor_keeps_it_so() -> None:
    memory, saturated = Memory(), {"mode": "saturated", "automatic": True}
    for second in range(100):
        memory, change = decide(memory, [WELL, STALLED], None, now_ms=1000 * second)
        assert change is None
    for second in range(100, 120):
        memory, change = decide(memory, [WELL, STALLED], saturated, now_ms=1000 * second)
        if change is not None:
            break
    assert change is not None and change.mode == "normal"
    assert change.reason == "every queue that is consumed has been under its low mark for 10\u00a0s"


def test_with_no_worker_at_all_saturated_stays_and_is_not_entered() -> None:
    dead = reading(oldest_age_s=49.0, left=9, consumers=0, is_stalled=True)
    assert play(None, dead, range(100))[1] is None
    assert play(AUTO, dead, range(100))[1] is None
    assert play(AUTO, reading(consumers=0), range(100))[1] is None


def test_work_that_waits_for_a_worker_is_measured_anew_once_one_is_there() -> None:
    memory, _, _ = play(None, reading(oldest_age_s=49.0, left=9, consumers=0, is_stalled=True), range(50))
    _, change, at = play(None, reading(oldest_age_s=49.0, left=9), range(50, 99), memory=memory)
    assert change is not None
    assert (change.mode, at) == ("saturated", 60)


def test_a_gap_in_the_samples_never_causes_a_transition() -> None:
    memory, _, _ = play(None, LATE, range(5))
    memory, change, _ = play(None, LATE, [60], memory=memory)
    assert change is None
    _, change, at = play(None, LATE, range(61, 90), memory=memory)
    assert change is not None
    assert at == 70


def test_saturated_is_left_when_all_are_under_the_low_mark_for_the_hold_time() -> None:
    _, change, at = play(AUTO, WELL, range(30))
    assert change is not None
    assert (change.mode, at) == ("normal", 10)


def test_between_the_marks_saturated_stays() -> None:
    assert play(AUTO, reading(fills={"count": 0.6}), range(100))[1] is None
    assert play(AUTO, reading(oldest_age_s=20.0), range(100))[1] is None


def test_what_an_operator_set_is_never_overridden() -> None:
    assert play(OPERATOR, WELL, range(200))[1] is None
    assert play({**OPERATOR, "mode": "draining"}, LATE, range(200), broken="Redis is full")[1] is None


def test_an_operators_mode_ends_at_its_time() -> None:
    _, change, at = play({**OPERATOR, "until_at_ms": 7000}, LATE, range(30))
    assert change is not None
    assert at == 7
    assert (change.mode, change.ends_operators) == ("normal", True)


def test_a_pinned_normal_stays_normal() -> None:
    pinned = {"mode": "normal", "automatic": False, "pinned": True, "until_at_ms": 10**12}
    assert play(pinned, LATE, range(200))[1] is None


def test_a_normal_set_by_hand_leaves_the_controller_free() -> None:
    _, change, _ = play({"mode": "normal", "automatic": False}, LATE, range(30))
    assert change is not None
    assert change.mode == "saturated"


def test_draining_until_drained_ends_when_nothing_waits_or_runs() -> None:
    entry = {"mode": "draining", "automatic": False, "until": "drained"}
    assert play(entry, reading(left=3), range(100))[1] is None
    _, change, at = play(entry, reading(left=0), range(100))
    assert change is not None
    assert (change.mode, change.ends_operators, at) == ("normal", True, 2)


def test_draining_without_an_end_stays() -> None:
    assert play({"mode": "draining", "automatic": False}, WELL, range(200))[1] is None


def test_a_redis_that_cannot_be_written_is_failed() -> None:
    _, change, at = play(None, WELL, range(5), broken="Redis is full")
    assert change is not None
    assert (change.mode, change.reason, at) == ("failed", "Redis is full", 0)


def test_failed_is_left_to_saturated_with_a_backlog_and_to_normal_without() -> None:
    failed = {"mode": "failed", "automatic": True}
    _, change, at = play(failed, reading(oldest_age_s=20.0), range(60))
    assert change is not None
    assert (change.mode, at) == ("saturated", 10)
    _, change, _ = play(failed, WELL, range(60))
    assert change is not None
    assert change.mode == "normal"


def test_failed_stays_while_the_cause_does() -> None:
    assert play({"mode": "failed", "automatic": True}, WELL, range(100), broken="Redis is full")[1] is None


def test_a_queues_own_mode_is_only_ended_never_started() -> None:
    assert play(None, LATE, range(100), automatic=False)[1] is None

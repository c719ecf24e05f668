"""Does a rule fire once, stay while it must and clear with room to spare?"""

from __future__ import annotations

from workers.alerts.measures import queue_value, read_values
from workers.alerts.rules import Rule, Watch, evaluate
from workers.alerts.sentences import say_alert

RULE = Rule(1, "normal-age", "normal", "oldest_age_s", 30.0, 15.0, 10.0)


def play(
    values: list[float | None], *, rule: Rule = RULE, watch: Watch | None = None, from_s: int = 0
) -> tuple[Watch, list[str]]:
    watch, acts = watch or Watch(), []
    for second, value in enumerate(values):
        watch, act = evaluate(rule, watch, value, now_ms=1000 * (from_s + second))
        acts.append(act)
    return watch, acts


def test_it_fires_once_after_the_for_duration() -> None:
    _, acts = play([31.0] * 15)
    assert acts.index("fire") == 10
    assert acts.count("fire") == 1


def test_a_dip_under_the_threshold_starts_the_duration_anew() -> None:
    assert "fire" not in play([31.0] * 9 + [29.0] + [31.0] * 9)[1]


def test_it_clears_only_under_the_clear_threshold() -> None:
    firing = Watch(firing=True, valued_at_ms=0, peak=40.0)
    assert play([20.0, 29.0, 16.0], watch=firing, from_s=1)[1] == ["", "", ""]
    assert play([15.0], watch=firing, from_s=1)[1] == ["clear"]


def test_the_worst_value_is_kept() -> None:
    watch, acts = play([50.0, 45.0], watch=Watch(firing=True, valued_at_ms=0, peak=40.0), from_s=1)
    assert acts == ["peak", ""]
    assert watch.peak == 50.0


def test_an_unknown_value_neither_fires_nor_clears() -> None:
    assert set(play([31.0] * 5 + [None] + [31.0] * 9)[1]) == {""}
    watch, acts = play([None], watch=Watch(firing=True, valued_at_ms=0, peak=40.0))
    assert watch.firing
    assert acts == [""]


def test_a_gap_does_not_count_towards_the_duration() -> None:
    watch, _ = play([31.0] * 3)
    _, act = evaluate(RULE, watch, 31.0, now_ms=60_000)
    assert act == ""


def test_equal_thresholds_clear_below_them() -> None:
    rule = Rule(1, "x", "", "no_consumer", 1.0, 1.0, 0.0)
    _, acts = play([1.0, 1.0, 0.0], rule=rule)
    assert acts == ["fire", "", "clear"]


def test_a_rule_without_a_queue_watches_each_on_its_own() -> None:
    row = {"oldest_age_ms": 5000, "depth": 3, "consumers": 0, "rates": {"shed": None, "refused": 2.0}}
    frame = {
        "mode": "failed",
        "queues": [
            {"name": "a", "mode": "draining", **row},
            {"name": "b", "mode": "normal", **row, "consumers": 1},
        ],
        "quarantine": {
            "count": 4,
            "oldest_age_ms": 9000,
            "by_queue": {"a": {"count": 4, "oldest_age_ms": 9000}},
        },
    }

    def values(measure: str, queue: str = "") -> dict[str, float | None]:
        return dict(read_values(Rule(1, "x", queue, measure, 1, 1, 0), frame))

    assert values("no_consumer") == {"a": 1.0, "b": 0.0}
    assert values("gate_failed") == {"": 1.0}
    assert values("queues_draining") == {"": 1.0}
    assert values("queues_draining", "a") == {"a": 1.0}
    assert values("queues_draining", "b") == {"b": 0.0}
    assert say_alert("queues_draining", "", 1.0, 1) == (
        "the gate: 1 queue is draining, nothing new is accepted there."
    )
    assert say_alert("queues_draining", "a", 1.0, 1) == "a: draining, nothing new is accepted there."
    assert values("oldest_age_s", "a") == {"a": 5.0}
    assert values("shed_rate") == {"a": None, "b": None}
    assert values("refused_rate") == {"a": 2.0, "b": 2.0}
    assert values("quarantine_count") == {"": 4.0}
    assert values("quarantine_count", "b") == {"b": 0.0}
    assert values("quarantine_age_s", "a") == {"a": 9.0}


def test_a_burn_rate_counts_only_where_both_windows_are_past_it() -> None:
    rates = {"5m": 30.0, "1h": 16.0, "30m": 9.0, "6h": None}
    row = {"objective": {"burn_rate": rates}}
    assert queue_value("burn_rate_fast", row) == 16.0
    assert queue_value("burn_rate_slow", row) is None
    assert queue_value("burn_rate_fast", {"objective": None}) is None
    rule = Rule(1, "promise", "", "burn_rate_fast", 14.4, 7.0, 0.0)
    assert evaluate(rule, Watch(), queue_value("burn_rate_fast", row), now_ms=1)[1] == "fire"
    said = say_alert("burn_rate_fast", "normal", 16.0, 14.4)
    assert said == (
        "normal: jobs miss the completion promise 16.0 times as fast as it allows, over the last 5 min and "
        "the last hour; the rule says 14.4 times."
    )

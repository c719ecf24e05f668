"""Does a rule fire or clear? For-duration, hysteresis, and an unknown value that changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

GAP_MS = 5_000  # longer than this between two values, and the for-duration starts anew


@dataclass(frozen=True, slots=True)
class Rule:
    id: int
    name: str
    queue: str  # "" watches every queue on its own
    measure: str
    threshold: float
    clear_threshold: float
    for_s: float
    severity: str = "warning"


class AlertKey(NamedTuple):
    """Which alert: known before the database has given it a number."""

    rule_id: int
    queue: str
    fired_at_ms: int


@dataclass(frozen=True, slots=True)
class Watch:
    """What is known of one rule on one queue."""

    firing: bool = False
    over_since_ms: int | None = None
    valued_at_ms: int | None = None
    peak: float | None = None


def evaluate(rule: Rule, watch: Watch, value: float | None, *, now_ms: int) -> tuple[Watch, str]:
    """The next watch, and "fire", "clear", "peak" (a firing one got worse) or nothing."""
    if value is None:
        return replace(watch, over_since_ms=None), ""
    gap = watch.valued_at_ms is not None and not 0 <= now_ms - watch.valued_at_ms <= GAP_MS
    since = None if gap else watch.over_since_ms
    watch = replace(watch, valued_at_ms=now_ms)
    if watch.firing:
        if is_clear(rule, value):
            return replace(watch, firing=False, over_since_ms=None, peak=None), "clear"
        if watch.peak is None or value > watch.peak:
            return replace(watch, peak=value), "peak"
        return watch, ""
    if not is_broken(rule, value):
        return replace(watch, over_since_ms=None), ""
    since = now_ms if since is None else since
    if now_ms - since >= 1000 * rule.for_s:
        return replace(watch, firing=True, over_since_ms=since, peak=value), "fire"
    return replace(watch, over_since_ms=since), ""


def is_broken(rule: Rule, value: float) -> bool:
    return value >= rule.threshold and value > 0


def is_clear(rule: Rule, value: float) -> bool:
    return value <= rule.clear_threshold if rule.clear_threshold < rule.threshold else value < rule.threshold

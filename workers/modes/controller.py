"""Should the mode change, and because of which figure? With hysteresis, and never because of a gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..forecast.wording import put_duration, put_share
from .effect import is_over

GAP_MS = 5_000  # longer than this between two samples, and every hold starts anew
FAILED_HOLD_MAX_S = 10.0  # its cause is a fact, not a trend: it need not be gone for a full minute
DRAINED_HOLD_MS = 2_000
AUTHOR = "monitor"
BOUND_WORDS = {"cost_ms": "work", "age_s": "age"}  # a reason is read by people


@dataclass(frozen=True, slots=True)
class Reading:
    """One queue at one sample; `fills` are shares of the full bounds, 1.0 is at the bound."""

    name: str
    oldest_age_s: float
    guard_age_s: float | None
    fills: Mapping[str, float] = field(default_factory=dict)
    high_mark: float = 0.9
    low_mark: float = 0.5
    hold_s: float = 60.0
    left: int = 0  # waiting and in flight; what is scheduled for later is no backlog
    consumers: int = 1  # live workers that take this queue
    is_stalled: bool = (
        False  # it has work and none of them: that alerts; letting less in elsewhere brings none
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """Since when each condition has held without a break; None: it does not hold."""

    sampled_at_ms: int | None = None
    over_since_ms: Mapping[str, int] = field(default_factory=dict)
    under_since_ms: Mapping[str, int] = field(default_factory=dict)
    broken_since_ms: int | None = None
    sound_since_ms: int | None = None
    drained_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    queue: str
    measure: str
    value: float
    threshold: float

    def say(self) -> str:
        if self.measure == "oldest_age_s":
            return f"{self.queue}: oldest {put_duration(self.value)}, guard {put_duration(self.threshold)}"
        bound = BOUND_WORDS.get(self.measure, self.measure)
        return (
            f"{self.queue}: {bound} at {put_share(self.value)} of its bound, "
            f"high mark {put_share(self.threshold)}"
        )


@dataclass(frozen=True, slots=True)
class Change:
    mode: str
    reason: str
    measure: str = ""
    value: float | None = None
    threshold: float | None = None
    ends_operators: bool = False  # the end that the operator set has come


def decide(
    memory: Memory,
    readings: Sequence[Reading],
    entry: Mapping[str, Any] | None,
    *,
    now_ms: int,
    broken: str = "",
    automatic: bool = True,
) -> tuple[Memory, Change | None]:
    """The next memory, and the change to make.

    `entry` is the scope's mode as the store has it, `broken` why nothing can be written. With
    `automatic` off only the ends that an operator set are watched (a queue's own mode).
    """
    memory = observe(memory, readings, now_ms=now_ms, broken=broken)
    mode = str(entry["mode"]) if entry else "normal"
    by_operator = entry is not None and not entry.get("automatic") and mode != "normal"
    if entry is not None and is_over(entry, now_ms=now_ms):
        if mode != "normal":
            return memory, Change("normal", "the time set for it is over", ends_operators=True)
        entry, by_operator = None, False
    if by_operator:
        if mode == "draining" and entry is not None and entry.get("until") == "drained":
            return memory, _drained(memory, now_ms)
        return memory, None
    if not automatic or (entry is not None and entry.get("pinned")):
        return memory, None
    if broken and mode != "failed":
        return memory, Change("failed", broken, "redis", None, None)
    if mode == "failed":
        return memory, None if broken else _recovered(memory, readings, now_ms)
    if mode == "normal":
        return memory, _saturated(memory, readings, now_ms)
    if mode == "saturated":
        return memory, _relieved(memory, readings, now_ms)
    return memory, None


def observe(memory: Memory, readings: Sequence[Reading], *, now_ms: int, broken: str) -> Memory:
    """Notes since when each condition holds; after a gap nothing has held yet."""
    last = memory.sampled_at_ms
    if last is not None and (now_ms - last > GAP_MS or now_ms < last):
        memory = Memory()
    over, under = {}, {}
    for reading in readings:
        if reading.is_stalled:
            continue
        if find_cause(reading) is not None:
            over[reading.name] = memory.over_since_ms.get(reading.name, now_ms)
        elif is_under(reading):
            under[reading.name] = memory.under_since_ms.get(reading.name, now_ms)
    empty = all(reading.left == 0 for reading in readings)
    return replace(
        memory,
        sampled_at_ms=now_ms,
        over_since_ms=over,
        under_since_ms=under,
        broken_since_ms=_since(memory.broken_since_ms, bool(broken), now_ms),
        sound_since_ms=_since(memory.sound_since_ms, not broken, now_ms),
        drained_since_ms=_since(memory.drained_since_ms, empty, now_ms),
    )


def find_cause(reading: Reading) -> Cause | None:
    """What is past its mark: age before bounds, since age is what users feel."""
    if reading.guard_age_s is not None and reading.oldest_age_s > reading.guard_age_s:
        return Cause(reading.name, "oldest_age_s", reading.oldest_age_s, reading.guard_age_s)
    fullest = max(reading.fills.items(), key=lambda item: item[1], default=None)
    if fullest is not None and fullest[1] > reading.high_mark:
        return Cause(reading.name, fullest[0], fullest[1], reading.high_mark)
    return None


def is_under(reading: Reading) -> bool:
    """Whether all is under the low mark; for age it is a share of the guard."""
    if reading.guard_age_s is not None and reading.oldest_age_s > reading.low_mark * reading.guard_age_s:
        return False
    return all(fill < reading.low_mark for fill in reading.fills.values())


def _saturated(memory: Memory, readings: Sequence[Reading], now_ms: int) -> Change | None:
    for reading in readings:
        cause, since = find_cause(reading), memory.over_since_ms.get(reading.name)
        if cause is not None and since is not None and now_ms - since >= 1000 * reading.hold_s:
            said = f"{cause.say()}, for {put_duration(max(1.0, (now_ms - since) / 1000))}"
            return Change("saturated", said, cause.measure, round(cause.value, 3), cause.threshold)
    return None


def _relieved(memory: Memory, readings: Sequence[Reading], now_ms: int) -> Change | None:
    """Stalled queues are not asked, or one would keep the rest saturated; with no worker at all it stays."""
    if not any(reading.consumers for reading in readings):
        return None
    every = "every queue" + (" that is consumed" if any(reading.is_stalled for reading in readings) else "")
    readings = [reading for reading in readings if not reading.is_stalled]
    for reading in readings:
        since = memory.under_since_ms.get(reading.name)
        if since is None or now_ms - since < 1000 * reading.hold_s:
            return None
    hold_s = max(reading.hold_s for reading in readings)
    oldest = max(readings, key=lambda reading: reading.oldest_age_s)
    return Change(
        "normal",
        f"{every} has been under its low mark for {put_duration(hold_s)}",
        "oldest_age_s",
        round(oldest.oldest_age_s, 3),
        None if oldest.guard_age_s is None else oldest.low_mark * oldest.guard_age_s,
    )


def _recovered(memory: Memory, readings: Sequence[Reading], now_ms: int) -> Change | None:
    hold_s = min([FAILED_HOLD_MAX_S, *(reading.hold_s for reading in readings)])
    if memory.sound_since_ms is None or now_ms - memory.sound_since_ms < 1000 * hold_s:
        return None
    gone = f"the cause has been gone for {put_duration(hold_s)}"
    for reading in readings:
        if not reading.is_stalled and not is_under(reading):
            return Change(
                "saturated",
                f"{gone}; {reading.name} has a backlog",
                "oldest_age_s",
                round(reading.oldest_age_s, 3),
                reading.guard_age_s,
            )
    return Change("normal", gone)


def _drained(memory: Memory, now_ms: int) -> Change | None:
    if memory.drained_since_ms is None or now_ms - memory.drained_since_ms < DRAINED_HOLD_MS:
        return None
    return Change("normal", "drained: nothing waits or runs", "left", 0.0, 0.0, ends_operators=True)


def _since(before: int | None, holds: bool, now_ms: int) -> int | None:
    if not holds:
        return None
    return now_ms if before is None else before

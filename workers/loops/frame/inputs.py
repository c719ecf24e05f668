"""What goes into a frame beside the snapshots?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...forecast.verdict import Verdict
from ...metrics.objective import Point, Promises
from ...metrics.percentiles import BinValue

EVENTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What the database said last; each may be behind, none holds the sampler up."""

    alerts: Sequence[Mapping[str, Any]] = ()
    last_alert_at_ms: int | None = None
    quarantine: Mapping[str, Any] | None = None  # count, bytes, oldest_at_ms, causes
    events: Sequence[Mapping[str, Any]] = ()
    promises: Sequence[Point] = ()  # from before this monitor began to watch
    loss: Mapping[str, Any] | None = None  # the newest loss of Redis's data, of the last 24 h
    alerts_known: bool = False  # by the alerter itself, though nothing could be read
    unknown: str = ""  # why, while nothing could be read
    health: Mapping[str, Any] = field(default_factory=dict)  # DatabaseHealth.current()


@dataclass(frozen=True, slots=True)
class Context:
    installation: str
    gate: str
    seq: int
    bin_value: BinValue
    redis: Mapping[str, Any]  # store.health(), with since_at_ms
    facts: DatabaseFacts = field(default_factory=DatabaseFacts)
    promises: Promises = field(default_factory=Promises)
    sampled_ago_ms: int = 0
    wish: str = ""  # the durability that was asked for


@dataclass(frozen=True, slots=True)
class Memory:
    """What one frame must know of the one before."""

    states: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # queue -> (state, since ms)
    verdict: Verdict | None = None
    verdict_key: tuple[Any, ...] = ()
    verdict_at_ms: int = 0
    noticed: Mapping[str, int] = field(default_factory=dict)  # kind of a notice -> since ms

"""What does a worker's turn at the gate take, and what does it bring?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from ..clock import RedisClock
from ..privacy.classes import DEFAULT_CLASS
from . import scripts
from .replies import as_rows, as_text


class Claimed(NamedTuple):
    """A job handed to a worker under a lease. ``lease_ms`` runs from the claim."""

    id: str
    epoch: int
    queue: str
    payload: bytes
    deliveries: int
    max_deliveries: int
    lease_ms: int
    accepted_at_ms: int
    task: str
    payload_class: str = DEFAULT_CLASS


@dataclass(frozen=True, slots=True)
class Settlement:
    """What came of one delivery; ``outcome`` is one of ``states.OUTCOMES``."""

    id: str
    epoch: int
    outcome: str
    started_at_ms: int | None = None
    run_ms: int | None = None
    error: dict[str, str] | None = None
    result_repr: str | None = None
    quarantine_reason: str | None = None
    delay_ms: int | None = None
    downstream: str | None = None  # what it teaches: success, dropped or ignore; None: by the outcome

    def pack(self) -> bytes:
        row: dict[str, Any] = {"i": self.id, "e": self.epoch, "o": self.outcome}
        for name, value in (
            ("st", self.started_at_ms),
            ("rt", self.run_ms),
            ("er", self.error),
            ("rr", self.result_repr),
            ("qr", self.quarantine_reason),
            ("dy", self.delay_ms),
            ("dw", self.downstream),
        ):
            if value is not None:
                row[name] = value
        return bytes(msgpack.packb(row, unicode_errors="replace"))


@dataclass(frozen=True, slots=True)
class Turn:
    """What a worker's turn brought: the jobs that it takes, and a word for each delivery that it ended."""

    jobs: list[Claimed]
    words: list[str]


def turn_arguments(
    worker: str, queues: Sequence[str], most: int, ends: Sequence[Settlement]
) -> tuple[str | bytes | int, ...]:
    """What claim.lua takes after the gate's root. The transport sends that script by itself."""
    return (worker, most, len(ends), *[end.pack() for end in ends], *queues)


def parse_turn(reply: bytes, clock: RedisClock) -> Turn:
    """What claim.lua replies; sets the clock by it."""
    now, rows, words = scripts.unpack_raw(reply)
    clock.set(now)
    jobs = [
        Claimed(
            as_text(row[0]),
            row[1],
            as_text(row[2]),
            bytes(row[3]),
            row[4],
            row[5],
            row[6],
            row[7],
            as_text(row[8]),
            as_text(row[9]) or DEFAULT_CLASS,
        )
        for row in as_rows(rows)
    ]
    return Turn(jobs, [as_text(word) for word in as_rows(words)])

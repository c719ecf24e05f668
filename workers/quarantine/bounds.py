"""Which held jobs must go because the quarantine is full? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    pk: int
    at_ms: int
    bytes: int


def choose_dropped(
    held: Sequence[Held], *, max_count: int | None, max_bytes: int | None, on_full: str
) -> list[int]:
    """Keys to drop so that both bounds hold; `drop_newest` keeps what came first."""
    order = sorted(held, key=lambda job: (job.at_ms, job.pk), reverse=on_full == "drop_newest")
    count, size = len(order), sum(job.bytes for job in order)
    dropped = []
    for job in order:
        if (max_count is None or count <= max_count) and (max_bytes is None or size <= max_bytes):
            break
        dropped.append(job.pk)
        count -= 1
        size -= job.bytes
    return dropped

"""What did Redis lose? Told from two snapshots, or from the last sample and a server that knows nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

HELD = ("depth", "delayed", "in_flight")


@dataclass(frozen=True, slots=True)
class Loss:
    """``waited``, ``delayed``, ``ran``: jobs when they were last seen.

    ``forgotten``: acceptances that Redis does not count any more, None where nothing can be compared.
    """

    last_seen_at_ms: int
    found_at_ms: int
    waited: int
    delayed: int
    ran: int
    forgotten: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Loss | None:
    """The loss between two snapshots; None where every queue counts at least as many acceptances."""
    forgotten = 0
    for name, queue in before["queues"].items():
        later = after["queues"].get(name)
        accepted = int(later["totals"].get("accepted") or 0) if later else 0
        forgotten += max(0, int(queue["totals"].get("accepted") or 0) - accepted)
    if not forgotten:
        return None
    return from_figures(
        before["queues"],
        last_seen_at_ms=int(before["now_ms"]),
        found_at_ms=int(after["now_ms"]),
        forgotten=forgotten,
    )


def from_figures(
    queues: Mapping[str, Mapping[str, Any]],
    *,
    last_seen_at_ms: int,
    found_at_ms: int,
    forgotten: int | None = None,
) -> Loss:
    """``queues`` have depth, delayed and in_flight, as a snapshot or a sample."""
    waited, delayed, ran = (sum(int(q.get(name) or 0) for q in queues.values()) for name in HELD)
    return Loss(last_seen_at_ms, max(found_at_ms, last_seen_at_ms), waited, delayed, ran, forgotten)


def say_loss(loss: Mapping[str, Any]) -> str:
    """The loss in a sentence, from ``Loss.as_dict``."""
    gone = f" {loss['forgotten']:,} acceptances are not known any more." if loss.get("forgotten") else ""
    return (
        f"Redis lost data. When last seen, {loss['waited']:,} jobs waited, {loss['delayed']:,} were delayed "
        f"and {loss['ran']:,} ran; those that it does not know any more are lost and run only if they are "
        f"submitted again.{gone}"
    )

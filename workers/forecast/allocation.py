"""Which share of the live slots does each queue get under the dispatch policy?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CEILING_SHARE = 0.10  # of all starts, for jobs past their age ceiling; never ahead of rank 0


@dataclass(frozen=True, slots=True)
class Through:
    """A downstream that a queue's work calls, and how many calls it takes at a time, from all queues.

    ``share`` is the part of the queue's slots that call it: all of them where the policy names it, and as
    many as stand aside for it where tasks do.
    """

    downstream: str
    calls: float
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Claimant:
    name: str
    wants: float  # slots it could keep busy now; infinity with a backlog
    open_slots: float  # slots of live workers that consume this queue
    strict_rank: int | None = None  # lower goes strictly first; None shares by weight
    weight: float = 1.0
    reserved: float = 0.0  # slots that no other queue may take
    cap: float | None = None  # max_in_flight
    past_ceiling: bool = False
    through: tuple[Through, ...] = ()


def allocate(claimants: Sequence[Claimant], *, total: float) -> dict[str, float]:
    """Slots a queue: strict ranks in order, a tenth for what is past its ceiling, the rest by weight."""
    given = {c.name: 0.0 for c in claimants}
    free = max(0.0, total)

    def can_take(c: Claimant) -> float:
        kept_for_others = sum(
            min(max(0.0, o.reserved - given[o.name]), o.open_slots) for o in claimants if o.name != c.name
        )
        room = min(free - kept_for_others, c.open_slots - given[c.name], c.wants - given[c.name])
        if c.cap is not None:
            room = min(room, c.cap - given[c.name])
        for via in c.through:
            called = sum(
                given[o.name] * other.share
                for o in claimants
                for other in o.through
                if other.downstream == via.downstream
            )
            room = min(room, (via.calls - called) / via.share)
        return max(0.0, room)

    def give(c: Claimant, slots: float) -> None:
        nonlocal free
        given[c.name] += slots
        free -= slots

    ranked = sorted(
        (c for c in claimants if c.strict_rank is not None), key=lambda c: (c.strict_rank, c.name)
    )
    for c in (c for c in ranked if c.strict_rank == 0):
        give(c, can_take(c))
    late = [c for c in claimants if c.past_ceiling and c.strict_rank != 0]
    budget = CEILING_SHARE * total
    late_weight = sum(c.weight for c in late)
    for c in late:
        give(c, min(can_take(c), budget * c.weight / late_weight if late_weight > 0 else 0.0))
    for c in (c for c in ranked if c.strict_rank != 0):
        give(c, can_take(c))
    shared = [c for c in claimants if c.strict_rank is None and c.weight > 0]
    for _ in range(len(shared) + 1):  # each round satisfies one queue at least, or ends
        hungry = [c for c in shared if can_take(c) > 1e-9]
        weights = sum(c.weight for c in hungry)
        if not hungry or free <= 1e-9:
            break
        part = free
        for c in hungry:
            give(c, min(can_take(c), part * c.weight / weights))
    return given

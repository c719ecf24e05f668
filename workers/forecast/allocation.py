"""Which share of the live slots does each queue get under the dispatch policy?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
class Crew:
    """Workers that serve the same queues, and the slots that they have together."""

    queues: frozenset[str]
    slots: float


@dataclass(frozen=True, slots=True)
class Claimant:
    name: str
    wants: float  # slots it could keep busy now; infinity with a backlog
    open_slots: float  # slots of live workers that consume this queue
    strict_rank: int | None = None  # lower goes strictly first; None shares by weight
    weight: float = 1.0
    reserved: float = 0.0  # slots that no other queue may take, but for the last one
    cap: float | None = None  # max_in_flight
    past_ceiling: bool = False
    through: tuple[Through, ...] = ()
    crews: tuple[Crew, ...] = ()  # who serves it; where nobody is told, one crew serves all


@dataclass(frozen=True, slots=True)
class _Bound:
    """So much, at most, of the slots given to the queues in ``parts``, each counted with its part."""

    limit: float
    parts: Mapping[str, float]
    of_crews: bool = False  # slots that workers have: some are kept free for who reserved them


def allocate(claimants: Sequence[Claimant], *, total: float) -> dict[str, float]:
    """Slots a queue: strict ranks in order, a tenth for what is past its ceiling, the rest by weight.

    ``total`` is of all live workers. Which of them serve which queues bounds what any queues get together.
    """
    given = {c.name: 0.0 for c in claimants}
    reserving = {c.name: c for c in claimants if c.reserved > 0}
    bounds: dict[str, list[_Bound]] = {name: [] for name in given}
    for bound in _bounds(claimants, total):
        for name in bound.parts:
            bounds[name].append(bound)

    def slack(bound: _Bound, c: Claimant) -> float:
        used = sum(given[name] * part for name, part in bound.parts.items())
        if not bound.of_crews:
            return bound.limit - used
        kept = [
            (min(o.reserved, o.open_slots), given[name])
            for name, o in reserving.items()
            if name != c.name and name in bound.parts
        ]
        # As claim.lua: the last slot is kept for nobody.
        reserved = min(sum(slots for slots, _ in kept), max(0.0, bound.limit - 1.0))
        return bound.limit - used - max(0.0, reserved - sum(min(has) for has in kept))

    def can_take(c: Claimant) -> float:
        return max(0.0, min(slack(bound, c) / bound.parts[c.name] for bound in bounds[c.name]))

    ranked = sorted(
        (c for c in claimants if c.strict_rank is not None), key=lambda c: (c.strict_rank, c.name)
    )
    for c in (c for c in ranked if c.strict_rank == 0):
        given[c.name] += can_take(c)
    late = [c for c in claimants if c.past_ceiling and c.strict_rank != 0]
    budget = CEILING_SHARE * total
    late_weight = sum(c.weight for c in late)
    for c in late:
        given[c.name] += min(can_take(c), budget * c.weight / late_weight if late_weight > 0 else 0.0)
    for c in (c for c in ranked if c.strict_rank != 0):
        given[c.name] += can_take(c)
    shared = [c for c in claimants if c.strict_rank is None and c.weight > 0]
    for _ in range(4 * len(shared) + 4):  # nearly each round holds one of them for good
        hungry = [c for c in shared if can_take(c) > 1e-9]
        if not hungry:
            break
        # All rise together, each by its weight, until the first bound holds one of them.
        rise = min(
            slack(bound, c) / sum(bound.parts.get(other.name, 0.0) * other.weight for other in hungry)
            for c in hungry
            for bound in bounds[c.name]
        )
        for c in hungry:
            given[c.name] += min(can_take(c), max(0.0, rise) * c.weight)
    return given


def _bounds(claimants: Sequence[Claimant], total: float) -> list[_Bound]:
    """What limits the queues, alone and together.

    What queues get together, no more than the slots of all that serve any of them: told of each queue with
    each that it meets in a crew, and of all. Three that meet in a chain may be told a little too much.
    """
    names = [c.name for c in claimants]
    crews = {c.name: frozenset(c.crews) for c in claimants}
    if not any(crews.values()):
        crews = dict.fromkeys(names, frozenset((Crew(frozenset(names), total),)))
    together = {crews[one] | crews[other] for one in names for other in names if crews[one] & crews[other]}
    together.add(frozenset().union(*crews.values()))
    bounds = [
        _Bound(
            sum(crew.slots for crew in served), {name: 1.0 for name in names if crews[name] <= served}, True
        )
        for served in together
    ]
    for c in claimants:
        alone = min(c.wants, c.open_slots, math.inf if c.cap is None else c.cap)
        bounds.append(_Bound(alone, {c.name: 1.0}))
    calls = {via.downstream: via.calls for c in claimants for via in c.through}
    for name, limit in calls.items():
        parts = {c.name: via.share for c in claimants for via in c.through if via.downstream == name}
        bounds.append(_Bound(limit, parts))
    return bounds

"""When is each backlog gone? A fluid model of all queues under the dispatch policy: T = Q / (mu - lambda)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..metrics.reasons import explain_nulls
from .allocation import Claimant, Through, allocate
from .load import Load

LONGEST_S = 30 * 86_400.0  # a longer forecast is "does not drain" in honest words
BAND_Z = 1.28  # the band holds four times of five
LEAST_BAND = 0.05


@dataclass(frozen=True, slots=True)
class Rules:
    """What the policy says of one queue's place in the dispatch and of its bounds."""

    strict_rank: int | None = None
    weight: float = 1.0
    reserved: float = 0.0
    cap: float | None = None
    ceiling_s: float | None = None
    downstream: str | None = None  # that the policy names
    through: tuple[Through, ...] = ()  # what its work calls, with the limits as they stand


@dataclass(frozen=True, slots=True)
class Flow:
    """One queue at one instant of the model, in slots (ms of service in a ms)."""

    served: float
    arriving: float
    starved_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outlook:
    state: str  # empty, draining, growing, stalled, unknown
    seconds: float | None
    flow: Flow | None
    reason: str = ""


def forecast(loads: Sequence[Load], rules: Mapping[str, Rules], *, total_slots: float) -> dict[str, Outlook]:
    """The outlook of every queue; they are modeled together, since they compete for the same slots."""
    arriving = {load.name: load_slots(load, load.arrivals_per_s) for load in loads}
    efficiency = {load.name: 1.0 for load in loads}
    first = _allocation(loads, rules, arriving, {q.name: q.work_ms for q in loads}, total_slots, at_s=0.0)
    now: dict[str, float] = {}
    for load in loads:
        measured = load_slots(load, load.completed_per_s) if load.completed_per_s is not None else None
        now[load.name] = measured if measured is not None else first[load.name]
        if measured is not None and first[load.name] > 0:
            efficiency[load.name] = min(1.3, max(0.2, measured / first[load.name]))
    gone = _run(loads, rules, arriving=arriving, served=now, efficiency=efficiency, total_slots=total_slots)
    outlooks: dict[str, Outlook] = {}
    for load in loads:
        outlooks[load.name] = _outlook(load, loads, rules, now, arriving, gone.get(load.name))
    return outlooks


def load_slots(load: Load, per_s: float | None) -> float:
    return (per_s or 0.0) * (load.mean_service_ms or 0.0) / 1000


def one_slot_fewer(
    loads: Sequence[Load], rules: Mapping[str, Rules], *, total_slots: float
) -> dict[str, Outlook]:
    """The same with one slot fewer, of each crew: measured completions shrink in proportion."""
    left = max(0.0, total_slots - 1)
    fewer = []
    for load in loads:
        crews = tuple(replace(crew, slots=max(0.0, crew.slots - 1)) for crew in load.crews)
        slots = sum(crew.slots for crew in crews) if crews else max(0.0, load.slots - 1)
        share = slots / load.slots if load.slots else 0.0
        completed = load.completed_per_s * share if load.completed_per_s is not None else None
        fewer.append(
            replace(
                load,
                slots=slots,
                crews=crews,
                consumers=load.consumers if slots else 0,
                completed_per_s=completed,
            )
        )
    return forecast(fewer, rules, total_slots=left)


def band(load: Load, outlook: Outlook) -> tuple[float, float] | None:
    """(low, high) in s, from the service-time distribution and the counts behind the rates."""
    if outlook.seconds is None or outlook.flow is None or outlook.seconds <= 0:
        return None
    served, arriving = outlook.flow.served, outlook.flow.arriving
    net = served - arriving
    spread = load.variation**2 / max(1, load.depth) + load.variation**2 / max(1, load.service_n)
    if net > 1e-9:
        served_error = served**2 / load.completed_n if load.completed_n else (0.15 * served) ** 2
        arriving_error = arriving**2 / max(1, load.arrivals_n)
        # The square of a very small lead is zero: then nothing is known of its time.
        spread += (served_error + arriving_error) / net**2 if net**2 else math.inf
    if outlook.flow.starved_by:
        spread += 0.04  # what goes first must end first, and is known no better than this
    if load.service_from == "estimate":
        spread += 0.25  # nothing measured yet: half as much again either way
    relative = min(2.0, max(LEAST_BAND, BAND_Z * math.sqrt(spread)))
    tail_s = (load.mean_service_ms or 0.0) * load.variation / 1000  # the last job's own spread
    return outlook.seconds / (1 + relative), outlook.seconds * (1 + relative) + tail_s


def claimant(
    load: Load, rules: Mapping[str, Rules], *, wants: float, has_work: bool, at_s: float = 0.0
) -> Claimant:
    """A queue as it asks for ``wants`` slots, ``at_s`` from now; late only while it has work."""
    rule = rules.get(load.name, Rules())
    late = rule.ceiling_s is not None and load.depth > 0 and load.age_s + at_s > rule.ceiling_s
    return Claimant(
        name=load.name,
        wants=wants,
        open_slots=load.slots,
        strict_rank=rule.strict_rank,
        weight=rule.weight,
        reserved=rule.reserved,
        cap=rule.cap,
        past_ceiling=late and has_work,
        through=rule.through,
        crews=load.crews,
    )


def _claimants(
    loads: Sequence[Load],
    rules: Mapping[str, Rules],
    arriving: Mapping[str, float],
    work: Mapping[str, float],
    at_s: float,
) -> list[Claimant]:
    claimants = []
    for load in loads:
        has_work = work[load.name] > 1e-6
        wants = math.inf if has_work else arriving[load.name]
        claimants.append(claimant(load, rules, wants=wants, has_work=has_work, at_s=at_s))
    return claimants


def _allocation(
    loads: Sequence[Load],
    rules: Mapping[str, Rules],
    arriving: Mapping[str, float],
    work: Mapping[str, float],
    total_slots: float,
    *,
    at_s: float,
) -> dict[str, float]:
    return allocate(_claimants(loads, rules, arriving, work, at_s), total=total_slots)


def _run(
    loads: Sequence[Load],
    rules: Mapping[str, Rules],
    *,
    arriving: Mapping[str, float],
    served: Mapping[str, float],
    efficiency: Mapping[str, float],
    total_slots: float,
) -> dict[str, float]:
    """Seconds until each backlog is gone; a queue that never gets there is not in the answer."""
    work = {load.name: load.work_ms if load.depth else 0.0 for load in loads}
    gone = {name: 0.0 for name, left in work.items() if left <= 0}
    at_s, rates = 0.0, dict(served)
    for _ in range(3 * len(loads) + 1):  # each step ends at a backlog's end or at a ceiling
        net = {name: rates[name] - arriving[name] for name in work}
        ends = [work[name] / 1000 / net[name] for name in work if work[name] > 1e-6 and net[name] > 1e-9]
        late = [
            rule.ceiling_s - load.age_s - at_s + 1e-3
            for load in loads
            if (rule := rules.get(load.name, Rules())).ceiling_s is not None and work[load.name] > 1e-6
        ]
        ends += [s for s in late if s > 0]
        if not ends or at_s + min(ends) > LONGEST_S:
            break
        step_s = min(ends)
        at_s += step_s
        work = {name: _less(left, net[name] * step_s * 1000) for name, left in work.items()}
        for name, left in work.items():
            if left == 0.0:
                gone.setdefault(name, at_s)
        given = _allocation(loads, rules, arriving, work, total_slots, at_s=at_s)
        rates = {name: slots * efficiency[name] for name, slots in given.items()}
        for name, left in work.items():
            if left == 0.0:
                rates[name] = max(rates[name], min(given[name], arriving[name]))
    return gone


def _less(left: float, done: float) -> float:
    """What is left of a backlog; a thousandth of a millisecond is nothing."""
    rest = left - done
    return rest if rest > 1e-3 else 0.0


def _outlook(
    load: Load,
    loads: Sequence[Load],
    rules: Mapping[str, Rules],
    now: Mapping[str, float],
    arriving: Mapping[str, float],
    gone_s: float | None,
) -> Outlook:
    if load.depth == 0 and load.held:
        return Outlook("unknown", None, None, "all that waits is held: its tenant is suspended")
    if load.depth == 0:
        return Outlook("empty", 0.0, Flow(now[load.name], arriving[load.name]))
    if load.consumers == 0 or load.slots <= 0:
        return Outlook("stalled", None, Flow(0.0, arriving[load.name]), "no consumer")
    if load.mean_service_ms is None:
        return Outlook("unknown", None, None, "no service time measured yet")
    if load.arrivals_per_s is None:
        return Outlook("unknown", None, None, load.arrivals_unknown)
    served, coming = now[load.name], arriving[load.name]
    starved = tuple(
        other.name
        for other in loads
        if other.name != load.name
        and now[other.name] > 1e-6
        and _goes_first(other.name, load.name, rules)
        and (not load.crews or not set(load.crews).isdisjoint(other.crews))
    )
    flow = Flow(served, coming, starved if served <= max(0.02 * load.slots, 1e-6) else ())
    starving = f"starved by {', '.join(flow.starved_by)}" if flow.starved_by else ""
    if served > coming and gone_s is not None:
        return Outlook("draining", gone_s, flow, starving)
    if coming <= 1e-9 and gone_s is not None:
        return Outlook("draining", gone_s, flow, starving)
    if coming > 1e-9:
        return Outlook("growing", None, flow, starving or "more arrives than is done")
    if served > 1e-6:
        return Outlook("unknown", None, flow, "drains later than can be modeled")
    return Outlook("stalled", None, flow, starving or "no slot is free for it")


def _goes_first(other: str, queue: str, rules: Mapping[str, Rules]) -> bool:
    mine, theirs = rules.get(queue, Rules()).strict_rank, rules.get(other, Rules()).strict_rank
    if theirs is None:
        return False
    return mine is None or theirs < mine


def drain_facts(load: Load, outlook: Outlook, *, rule: Rules, total_slots: float) -> dict[str, Any]:
    """The inputs as they are shown beside the forecast."""
    flow = outlook.flow
    limits = {via.downstream: via.calls for via in rule.through}
    facts: dict[str, Any] = {
        "work_ms": round(load.work_ms),
        "jobs": load.depth,
        "slots": round(load.slots, 2),
        "slots_of_all": round(total_slots, 2),
        "weight": rule.weight,
        "strict_rank": rule.strict_rank,
        "downstream_limit": limits.get(rule.downstream or ""),
        "through": [
            {"downstream": via.downstream, "limit": via.calls, "share": round(via.share, 3)}
            for via in rule.through
        ],
        "mu": _maybe(flow.served if flow else None),  # slots kept busy by this queue
        "lambda": _maybe(flow.arriving if flow else None),  # slots that the arrivals would keep busy
        "arrivals_per_s": _maybe(load.arrivals_per_s),
        "completed_per_s": _maybe(load.completed_per_s),
        "mu_from": "measured" if load.completed_per_s is not None else "modeled",
        "mean_service_ms": _maybe(load.mean_service_ms),
        "service_from": load.service_from,
        "cost_factor": round(load.cost_factor, 3),
    }
    reasons = {
        "mu": outlook.reason or "not modeled",
        "lambda": outlook.reason or "not modeled",
        "arrivals_per_s": load.arrivals_unknown or "not enough samples yet",
        "completed_per_s": "not busy long enough to be measured",
        "mean_service_ms": "no service time measured yet",
        "strict_rank": "shares by weight",
        "downstream_limit": "no downstream" if rule.downstream is None else "not known yet",
    }
    return explain_nulls(facts, reasons)


def _maybe(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

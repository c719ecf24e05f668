"""What gives way first under pressure, at which mark, by which rule? From the policies, for each mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ..forecast.wording import put_bytes, put_duration, put_number, put_share
from .effect import admits, bounds_in_force, saturated_share

Policy = Mapping[str, Any]

#: What becomes of an offer at a bound, by `on_full`; {..} are fields of the policy.
RULES: Final[dict[str, str]] = {
    "reject": "new offers are refused with a time to come back",
    "block": "producers wait up to {block}, then are refused",
    "drop_newest": "new offers are dropped without an error",
    "drop_oldest": "the longest waiting is shed for each new offer",
    "coalesce": "a new offer takes the place of the one of its key that waits; others are refused",
    "sample": "new offers are refused; from {high} of the count on, {kept} of them are let in",
    "degrade": "new offers are accepted as {cheaper}, {where}; past that they are refused",
    "spill": "new offers go to the spill, up to {spill}; past that they are refused",
}
SHAPES: Final = {"closed": "diamond", "narrowed": "triangle", "bounded": "ring", "unbounded": "dashed"}


@dataclass(frozen=True, slots=True)
class Step:
    """One queue's turn to give way. `effect`: closed, narrowed (smaller bounds), bounded, unbounded."""

    place: int
    queue: str
    effect: str
    on_full: str
    says: str
    bounds: dict[str, float | None] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "shape": SHAPES[self.effect]}


def shed_order(policies: Mapping[str, Policy], mode: str) -> list[Step]:
    """The queues in the order in which they give way: first who is closed, then the least important."""
    found = []
    for queue, policy in policies.items():
        bounds = bounds_in_force(policy, mode)
        effect = _effect(policy, mode, bounds)
        found.append((_turn(queue, policy, mode), queue, policy, effect, bounds))
    found.sort(key=lambda row: row[0])
    return [
        Step(
            place=place,
            queue=queue,
            effect=effect,
            on_full=str(policy.get("on_full") or "reject"),
            says=_say(policy, mode, effect, bounds),
            bounds={} if effect == "closed" else dict(bounds),
        )
        for place, (_, queue, policy, effect, bounds) in enumerate(found, start=1)
    ]


def say_entry(policies: Mapping[str, Policy], mode: str) -> str:
    """What brings the mode about."""
    if mode == "normal":
        return "The usual mode: each queue gives way at its own bounds."
    if mode == "saturated":
        guards = [(p["guard_age_s"], q) for q, p in policies.items() if p.get("guard_age_s") is not None]
        marks = [(p.get("high_mark") or 0.9) for p in policies.values()]
        first = f"; the nearest guard is {put_duration(min(guards)[0])} ({min(guards)[1]})" if guards else ""
        mark = f"a bound over its high mark ({put_share(min(marks))} and more)" if marks else "a full bound"
        past = f"a queue's oldest is past its guard or {mark} for its hold time"
        return f"By an operator, or by itself once {past}{first}."
    if mode == "draining":
        return "By an operator: the backlog is run, nothing new is let in but what its policy admits."
    return "By itself while Redis cannot be written: nothing is let in."


def say_within(policies: Mapping[str, Policy]) -> str:
    """What gives way first within a queue, before its bound is met by all."""
    shares = sorted({float(p.get("tenant_share") or 0.8) for p in policies.values()})
    if not shares:
        return ""
    words = put_share(shares[0]) if len(shares) == 1 else f"{put_share(shares[0])} to {put_share(shares[-1])}"
    return (
        f"Within a queue with several tenants, one that holds {words} of a bound gives way before the others."
    )


def _turn(queue: str, policy: Policy, mode: str) -> tuple[Any, ...]:
    rank = policy.get("strict_rank")
    share = 0.0 if not admits(policy, mode) else saturated_share(policy) if mode == "saturated" else 1.0
    return (share, rank is not None, -(rank or 0), float(policy.get("weight") or 0), queue)


def _effect(policy: Policy, mode: str, bounds: Mapping[str, float | None]) -> str:
    if not admits(policy, mode):
        return "closed"
    if all(bound is None for bound in bounds.values()) and policy.get("max_wait_s") is None:
        return "unbounded"
    return "narrowed" if mode == "saturated" and saturated_share(policy) < 1 else "bounded"


def _say(policy: Policy, mode: str, effect: str, bounds: Mapping[str, float | None]) -> str:
    tail = _say_tail(policy, mode)
    if effect == "closed":
        return f"closed: every new offer is refused{tail}"
    if effect == "unbounded":
        return f"has no bound: nothing is refused{tail}"
    on_full = str(policy.get("on_full") or "reject")
    rule = RULES.get(on_full, on_full).format(**_words(policy))
    share = f" ({put_share(saturated_share(policy))} of the usual)" if effect == "narrowed" else ""
    return f"at {_say_bounds(policy, bounds)}{share} {rule}{tail}"


def _say_tail(policy: Policy, mode: str) -> str:
    """Newest first sheds what waits too long: nobody would come to it."""
    if mode == "saturated" and policy.get("order") == "lifo" and policy.get("age_ceiling_s") is not None:
        return f"; newest first, and what has waited {put_duration(policy['age_ceiling_s'])} is shed"
    return ""


def _say_bounds(policy: Policy, bounds: Mapping[str, float | None]) -> str:
    forms = {
        "count": lambda v: f"{put_number(v)} jobs",
        "bytes": put_bytes,
        "cost_ms": lambda v: f"{put_duration(v / 1000)} of work",
        "age_s": lambda v: f"an oldest of {put_duration(v)}",
    }
    said = [form(bounds[name]) for name, form in forms.items() if bounds.get(name) is not None]
    if policy.get("max_wait_s") is not None:
        said.append(f"a modeled wait of {put_duration(policy['max_wait_s'])}")
    return _either(said)


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _words(policy: Policy) -> dict[str, str]:
    spill = []
    if policy.get("spill_max_count") is not None:
        spill.append(f"{put_number(policy['spill_max_count'])} jobs")
    if policy.get("spill_max_bytes") is not None:
        spill.append(put_bytes(policy["spill_max_bytes"]))
    if policy.get("degrade_queue"):
        where = f"in {policy['degrade_queue']} within its bounds"
    else:
        where = f"up to {put_share(policy.get('degrade_reserve') or 0)} beyond each bound"
    return {
        "block": put_duration(policy.get("block_s") or 0),
        "high": put_share(policy.get("high_mark") or 0.9),
        "kept": put_share(policy.get("sample_rate") or 0),
        "cheaper": str(policy.get("degrade_to")),
        "where": where,
        "spill": _either(spill) if spill else "its bounds",
    }

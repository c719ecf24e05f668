"""What is offered to the gate, and what does the gate answer?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack

from ..states import DEFAULT_TENANT

# An offer and a verdict are made for each job. Nobody changes one, yet they are not frozen: to make a frozen
# one of so many fields takes four times as long.


@dataclass(slots=True)
class Offer:
    """One job, as it stands at the door.

    ``payload`` is the message as the worker will get it. ``delay_ms`` counts from now, ``deadline_ms``
    too (None: no deadline). ``cost_ms`` is the service time if the producer knows it; else the task's
    own history says. ``links`` are the ids of the later links of a canvas that this message brings
    along. ``offered_ago_ms`` is how long before this call the offer was made. ``retries`` counts how often
    a task published its own id again: retries, and replacements of itself; ``parent`` is the operation
    that publishes a replacement. ``api_key`` names the key that a limit per key counts; offers without one
    (Celery publishes) count together, a tenant's as one.
    ``ask`` is a producer's question for credits, which rides along.
    ``ticket`` is one that the queue's waiting room gave this tenant before.
    ``payload_class`` None: what the operation that brings it along has, else what the queue's policy says.
    ``downstream`` is what this job calls, where it is another than its queue's.
    ``minted`` says that the id was made for this very offer: nothing can be known of it yet.
    """

    id: str
    task: str
    queue: str
    payload: bytes
    tenant: str = DEFAULT_TENANT
    cost_ms: int | None = None
    delay_ms: int = 0
    deadline_ms: int | None = None
    offered_ago_ms: int = 0
    retries: int = 0
    parent: str | None = None
    links: tuple[str, ...] = ()
    ordering_key: str | None = None
    coalesce_key: str | None = None
    downstream: str | None = None
    source_sequence: int | None = None
    replay_of: str | None = None
    replay_until_at_ms: int | None = None
    idempotency_key: str | None = None
    idempotency_hash: str | None = None
    tags: tuple[str, ...] = ()
    trace: str | None = None
    api_key: str | None = None
    ask: Ask | None = None
    ticket: str | None = None
    payload_class: str | None = None
    minted: bool = False

    def pack(self) -> bytes:
        """The offer as admit.lua reads it: short names, nothing that is at its default."""
        row: dict[str, Any] = {"i": self.id, "t": self.task, "q": self.queue, "n": self.tenant}
        for name, value in (
            ("c", self.cost_ms),
            ("d", self.delay_ms or None),
            ("dd", self.deadline_ms),
            ("oa", self.offered_ago_ms or None),
            ("r", self.retries or None),
            ("pa", self.parent if self.retries else None),
            ("l", self.links or None),
            ("ro", self.replay_of),
            ("ru", self.replay_until_at_ms),
            ("ok", self.ordering_key),
            ("ck", self.coalesce_key),
            ("ds", self.downstream),
            ("sq", self.source_sequence),
            ("ik", self.idempotency_key),
            ("ih", self.idempotency_hash),
            ("tg", self.tags or None),
            ("tr", self.trace),
            ("k", self.api_key),
            ("tk", self.ticket),
            ("pr", self.ask and (self.ask.producer, self.ask.epoch, self.ask.used)),
            ("pc", self.payload_class),
            ("f", 1 if self.minted else None),
        ):
            if value is not None:
                row[name] = value
        return bytes(msgpack.packb(row, unicode_errors="surrogatepass"))


@dataclass(frozen=True, slots=True)
class Ask:
    """A producer asks for credits and tells how many of its last ones it has used."""

    producer: str
    epoch: int
    used: int


@dataclass(frozen=True, slots=True)
class Grant:
    """How many attempts a producer is permitted, and for how long.

    With none, ``closed_s`` is how long the queue is closed to it, and ``reason`` why. ``producers`` live ones
    share the queue's ``limits`` that each counts by itself.
    """

    credits: int
    for_s: float
    producers: int = 1
    closed_s: float = 0.0
    reason: str = ""
    limits: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in the line of a queue's waiting room, of ``out`` tickets that are out.

    ``position`` 1 is called next; 0 has been called: a place is kept for it. ``modeled_s`` is the modeled
    time until it is called, None where no rate is known. Its holder must come back by ``until_at_ms``.
    """

    id: str
    queue: str
    position: int
    out: int
    modeled_s: float | None
    retry_after_s: float
    until_at_ms: int


@dataclass(frozen=True, slots=True)
class RateLeft:
    """What is left of a rate limit that an offer met; it is whole again after ``reset_ms``."""

    per: str
    kind: str
    limit: int
    window_ms: int
    left: int
    reset_ms: int


@dataclass(slots=True)
class Verdict:
    """The gate's answer to one offer.

    ``accepted`` with ``duplicate_of`` set means that this id, or this idempotency key, is known
    already: nothing new was stored; with status ``shed``, that the queue declares to drop without an
    error what it has no room for. ``block_s`` is how long its producers may wait for room. ``conflict``
    means that the idempotency key belongs to a different body. ``figures`` hold the value and the bound
    that refused it, counted in ``unit``. ``phase`` tells where a pending one stands. ``degraded_from`` names
    the task and the queue that were asked for, and the bound that was met, where a cheaper task was accepted.
    """

    accepted: bool
    id: str
    queue: str
    status: str
    reason: str | None = None
    retry_after_s: float | None = None
    accepted_at_ms: int | None = None
    duplicate_of: str | None = None
    conflict: bool = False
    durability: str | None = None
    block_s: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)
    rates: tuple[RateLeft, ...] = ()
    phase: str | None = None
    degraded_from: dict[str, str] | None = None
    grant: Grant | None = None
    ticket: Ticket | None = None
    unit: str | None = None


#: Outcomes of a full queue that are no error to the producer: counted as refused, answered as shed.
SHED_IN_SILENCE = frozenset({"drop_newest", "sample"})
#: Reasons that mean "full", to which a queue's declared outcome applies.
BOUNDS = frozenset({"count", "bytes", "cost", "age", "tenant", "downstream"})
#: Reasons that stand for bounds of several kinds.
SEVERAL_BOUNDS = frozenset({"tenant", "downstream"})


#: In what a bound is counted. Those of a tenant and behind a downstream are of jobs, bytes or work, whichever
#: is met first: the gate says which.
UNITS = {
    "count": "jobs",
    "bytes": "bytes",
    "size": "bytes",
    "cost": "ms",
    "age": "ms",
    "deadline": "ms",
    "waiting_room": "tickets",
}
#: How a sentence calls them; what has said "as many jobs" before says no more than the number.
SAID = {"bytes": " bytes", "ms": " ms of work"}


def say_figures(verdict: Verdict) -> str:
    """The figures of a refusal in words; empty where there are none."""
    if verdict.reason == "deadline":
        wait_s, left_s = (verdict.figures.get(name, 0.0) / 1000 for name in ("value", "bound"))
        if left_s <= 0:
            return "its deadline has passed"
        return f"it would wait {wait_s:.1f} s (modeled) and has {left_s:.1f} s until its deadline"
    value, bound = (verdict.figures.get(name) for name in ("value", "bound"))
    if value is None or bound is None:
        return ", ".join(f"{name} {figure:g}" for name, figure in verdict.figures.items())
    if verdict.reason == "age":
        return f"{value / 1000:.1f} s, at most {bound / 1000:.1f} s"
    if verdict.reason == "waiting_room":
        return f"{value:.0f} tickets are out, at most {bound:.0f}"
    counted_in = verdict.unit or UNITS.get(verdict.reason or "", "")
    jobs = " jobs" if counted_in == "jobs" and verdict.reason in SEVERAL_BOUNDS else ""
    unit = SAID.get(counted_in, jobs)
    with_it = "" if verdict.reason == "size" else " with this one"
    return f"{value:.0f}{unit}{with_it}, at most {math.floor(bound)}{unit}"


def parse_verdict(row: list[Any], now_ms: int) -> Verdict:
    """A verdict from admit.lua's reply row; its last part may be a map of what else is told."""
    told: dict[str, Any] = row.pop() if isinstance(row[-1], dict) else {}
    rates = tuple(RateLeft(*limit) for limit in told.get("r") or ())
    grant = read_grant(told["c"]) if told.get("c") else None
    op_id, kind, queue = row[0], row[1], row[2]
    if kind == "refused":
        figures = {name: float(v) for name, v in zip(("value", "bound"), row[5:7], strict=False) if v}
        unit = UNITS.get(row[9] if len(row) > 9 else row[3]) if figures else None
        on_full, block_s = row[7], float(row[8])
        if on_full in SHED_IN_SILENCE and row[3] in BOUNDS:
            return Verdict(True, op_id, queue, "shed", row[3], figures=figures, grant=grant, unit=unit)
        wait = block_s if on_full == "block" and row[3] in BOUNDS else 0.0
        return Verdict(
            False,
            op_id,
            queue,
            "refused",
            row[3],
            row[4] / 1000,
            figures=figures,
            block_s=wait,
            rates=rates,
            grant=grant,
            ticket=read_ticket(queue, told["w"]) if told.get("w") else None,
            unit=unit,
        )
    if kind == "conflict":
        return Verdict(False, row[3], queue, "refused", "duplicate", 0.0, conflict=True, grant=grant)
    duplicate = op_id if kind == "duplicate" else None
    asked = dict(zip(("task", "queue", "reason"), row[4:7], strict=True)) if len(row) > 4 else None
    return Verdict(
        True,
        op_id,
        queue,
        status_of(row[3]),
        accepted_at_ms=now_ms,
        duplicate_of=duplicate,
        phase=row[3] if row[3] in WAITING_STATES else None,
        degraded_from=asked,
        rates=rates,
        grant=grant,
    )


#: States of a record that is pending and in nobody's hands. The phase of one that is parked is blocked.
WAITING_STATES = frozenset({"waiting", "delayed", "blocked", "spilled", "parked"})


def read_ticket(queue: str, row: list[Any]) -> Ticket:
    """A ticket from the row of admit.lua or ticket.lua."""
    ticket, position, out, modeled_ms, retry_ms, until_ms = row
    modeled_s = None if modeled_ms is False else modeled_ms / 1000
    return Ticket(ticket, queue, position, out, modeled_s, retry_ms / 1000, until_ms)


def read_grant(row: list[Any]) -> Grant:
    """A grant from the row of admit.lua or account.lua."""
    credits, for_ms, producers, closed_ms, reason, limits = row
    return Grant(credits, for_ms / 1000, producers, closed_ms / 1000, reason, tuple(limits or ()))


def status_of(state: str, started: bool = False) -> str:
    """The public status for a record's state (waiting, delayed, leased, or a terminal status)."""
    if state in WAITING_STATES:
        return "pending"
    if state == "leased":
        return "running" if started else "pending"
    return state

"""Does the gate do, step by step, what a small model of it says, in whatever order things happen?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    run_state_machine_as_test,
)
from hypothesis.stateful import rule as make_rule

from workers.limits.downstream import parse_downstream
from workers.states import TERMINAL
from workers.store import Offer, Settlement, Store

from . import audit
from .conftest import publish
from .test_admission import make_older

HOUR_MS = 3_600_000
QUEUES = ("critical", "normal", "bulk")
TENANTS = ("a", "b")
DOWNSTREAMS = ("sink", "own")
MAX_DELIVERIES = 3

#: Four jobs a tenant, and none more while a machine runs.
RATE = {"per": "tenant", "kind": "token_bucket", "limit": 1, "burst": 4, "window_s": 86_400}

#: Bounds that a machine of some forty steps reaches, changed while it runs.
POLICIES: dict[str, list[dict[str, Any]]] = {
    "critical": [{"strict_rank": 0, "max_count": 4}, {"strict_rank": 0}],
    "normal": [
        {"weight": 3, "max_count": 5, "max_bytes": 120, "max_cost_ms": 900, "saturated_share": 0.5},
        {"weight": 3, "max_bytes": 60, "saturated_share": 0.5, "tenant_share": 0.4},
        {"weight": 3, "max_count": 3, "max_in_flight": 1},
        {"weight": 3, "max_in_flight_per_task": {"t": 1}},
        {"weight": 3, "downstream": "sink"},
        {"weight": 3, "max_count": 2, "on_full": "spill", "spill_max_count": 4, "objective_s": 60},
        {"weight": 3, "max_count": 2, "on_full": "degrade", "degrade_to": "cheap", "degrade_queue": "bulk"},
        {"weight": 3, "max_count": 2, "on_full": "degrade", "degrade_to": "cheap", "degrade_reserve": 1.0},
    ],
    "bulk": [
        {"weight": 1, "max_count": 4, "saturated_share": 0},
        {"weight": 1, "max_cost_ms": 500, "order": "lifo"},
        {"weight": 1, "order": "edf", "max_in_flight_per_task": {"t": 2}},
        {"weight": 1, "codel_target_ms": 1, "codel_interval_ms": 2},
        {"weight": 1, "rate_limits": [RATE]},
        {"weight": 1, "max_count": 1, "on_full": "spill", "spill_max_count": 3},
    ],
}
COUNTED = (
    "offered",
    "accepted",
    "refused",
    "started",
    *TERMINAL,
    "quarantined",
    "retried",
    "redelivered",
    "over_bound",
    "degraded",
    "promised",
    "in_objective",
)
OUTCOMES = ("succeeded", "failed", "retry", "released", "requeued", "lost", "expired", "cancelled", "ignored")

#: How often each rule was carried through; those that are drawn as rare ones each by its own name.
STEPS: Counter[str] = Counter()


def counted(step: Callable[..., None]) -> Callable[..., None]:
    STEPS[step.__name__] = 0

    @wraps(step)
    def count(*args: Any, **given: Any) -> None:
        step(*args, **given)
        STEPS[step.__name__] += 1

    return count


def rule(**given: Any) -> Callable[[Callable[..., None]], Any]:
    return lambda step: make_rule(**given)(counted(step))


@dataclass
class Job:
    queue: str
    tenant: str
    size: int
    cost: int
    state: str
    retries: int = 0
    deliveries: int = 0
    epoch: int | None = None
    successor: tuple[int, int, bool] | None = None  # retries, size, delayed
    cancel_asked: bool = False
    started: bool = False
    expired: bool = False
    erased: bool = False  # deleted by request; one that ran then is asked to stop and keeps nothing
    aside: bool = False  # waiting, and set aside by a cap or a downstream
    due: bool = False  # delayed, and its time has come
    run_out: bool = False  # leased, and its lease has ended
    promised: bool = False
    later: bool = False  # spilled, and to be delayed once it is let in
    place: int = 0  # among the spilled
    stale_epochs: list[int] = field(default_factory=list)


class GateMachine(RuleBasedStateMachine):
    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.store.client.flushall()
        self.jobs: dict[str, Job] = {}
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.policies: dict[str, dict[str, Any]] = {queue: rows[0] for queue, rows in POLICIES.items()}
        self.modes: dict[str, str] = {}
        self.limits: dict[str, int] = {}
        self.suspended: set[str] = set()
        self.known: dict[str, set[str]] = {queue: set() for queue in QUEUES}
        self.links: dict[str, str] = {}
        self.keys: dict[tuple[str, str], tuple[str, str]] = {}
        self.charged: Counter[tuple[str, str]] = Counter()
        self.ended: dict[str, str] = {}
        self.newest_epoch = 0
        self.number = 0
        self.publish(self.policies)
        for name in DOWNSTREAMS:
            self.limit_downstream(name, 2)

    def publish(self, policies: dict[str, dict[str, Any]]) -> None:
        # A lease ends when the model says so, however slow the machine is.
        publish(self.store, {queue: {"lease_s": 600, **fields} for queue, fields in policies.items()})

    # What the model knows.

    def in_state(self, *states: str) -> list[str]:
        return [op_id for op_id, job in self.jobs.items() if job.state in states]

    def level(self, queue: str, tenant: str | None = None) -> tuple[int, int, int]:
        """Count, bytes and cost that stand in a queue."""
        jobs = [j for j in self.jobs.values() if j.queue == queue and tenant in (None, j.tenant)]
        pending = [j for j in jobs if j.state in ("waiting", "delayed")]  # what is spilled counts apart
        cost = sum(j.cost for j in pending if j.state == "waiting")
        return len(pending), sum(j.size for j in pending), cost

    def runnable(self, queue: str | None = None) -> list[Job]:
        """What waits and may be claimed: not a suspended tenant's, nor what is held back by a cap."""
        jobs = [self.jobs[op_id] for op_id in self.in_state("waiting")]
        free = [job for job in jobs if job.tenant not in self.suspended and not job.aside]
        return [job for job in free if queue in (None, job.queue)]

    def spilled(self, queue: str, tenant: str | None = None) -> list[str]:
        found = [i for i in self.in_state("spilled") if self.jobs[i].queue == queue]
        return sorted(
            (i for i in found if tenant in (None, self.jobs[i].tenant)), key=lambda i: self.jobs[i].place
        )

    def has_spill_room(self, offer: Offer) -> bool:
        most = self.policies[offer.queue]["spill_max_count"]
        several = len(self.known[offer.queue] | {offer.tenant}) > 1
        own = len(self.spilled(offer.queue, offer.tenant)) + 1
        return len(self.spilled(offer.queue)) + 1 <= most and own <= max(1, most * (0.8 if several else 1))

    def true_reasons(self, offer: Offer, room: float = 1) -> set[str]:
        """Every reason for which this offer may be refused now; empty where it must be accepted."""
        return {"suspended"} if offer.tenant in self.suspended else self.bounds_passed(offer, room)

    def bounds_passed(self, offer: Offer, room: float = 1) -> set[str]:
        p, size, cost = self.policies[offer.queue], len(offer.payload), offer.cost_ms or 0
        mode = max(
            (self.modes.get(scope, "normal") for scope in ("*", offer.queue)),
            key=("normal", "saturated", "draining", "failed").index,
        )
        share = p.get("saturated_share", 1) if mode == "saturated" else 1
        reasons = set()
        if mode == "failed":
            reasons.add("unavailable")
        if mode == "draining" or share == 0:
            reasons.add("mode")
        if size > p.get("max_bytes", size):
            reasons.add("size")
        if offer.deadline_ms is not None and offer.deadline_ms <= offer.delay_ms:
            reasons.add("deadline")
        share *= room
        fields = ("max_count", "max_bytes", "max_cost_ms")
        after = [have + more for have, more in zip(self.level(offer.queue), (1, size, cost), strict=True)]
        for value, bound, reason in zip(after, fields, ("count", "bytes", "cost"), strict=True):
            if bound in p and value > p[bound] * share:
                reasons.add(reason)
        if "rate_limits" in p and self.charged[(offer.queue, offer.tenant)] >= RATE["burst"]:
            reasons.add("rate")
        if len(self.known[offer.queue] | {offer.tenant}) > 1:
            part = share * p.get("tenant_share", 0.8)
            own = self.level(offer.queue, offer.tenant)
            after = [have + more for have, more in zip(own, (1, size, cost), strict=True)]
            for value, bound in zip(after, fields, strict=True):
                room = max(1, p.get(bound, 0) * part) if bound == "max_count" else p.get(bound, 0) * part
                if bound in p and part < share and value > room:
                    reasons.add("tenant")
        return reasons

    def count(self, job: Job, *names: str) -> None:
        for name in names:
            self.counts[(job.queue, job.tenant, name)] += 1

    def end(self, op_id: str, status: str) -> None:
        job = self.jobs[op_id]
        job.state, job.successor = status, None
        self.count(job, status)
        if job.promised and status not in ("cancelled", "superseded"):
            self.count(job, "promised", *(["in_objective"] if status == "succeeded" else []))
        self.ended[op_id] = status

    def back(self, op_id: str, *, delayed: bool = False) -> None:
        """Returns a job to its line; a successor takes its place."""
        job = self.jobs[op_id]
        self._back(job)
        if delayed:
            job.state = "delayed"
        p = self.policies[job.queue]
        bounds = (p.get(name, float("inf")) for name in ("max_count", "max_bytes", "max_cost_ms"))
        if any(value > bound for value, bound in zip(self.level(job.queue), bounds, strict=True)):
            self.count(job, "over_bound")

    def _back(self, job: Job) -> None:
        job.state, job.started, job.run_out = "waiting", False, False
        if job.successor is not None:
            job.retries, job.size, delayed = job.successor
            job.successor, job.deliveries = None, 0
            job.state = "delayed" if delayed else "waiting"

    def lose(self, op_id: str) -> None:
        job = self.jobs[op_id]
        self.count(job, "redelivered")
        if job.cancel_asked:
            self.end(op_id, "cancelled")
        elif job.successor is None and job.deliveries >= MAX_DELIVERIES:
            self.count(job, "quarantined")
            self.end(op_id, "failed")
        else:
            self.back(op_id)

    def enter(self, offer: Offer, *, over_bound: bool = False, is_link: bool = False) -> None:
        if "rate_limits" in self.policies[offer.queue] and not is_link:
            self.charged[(offer.queue, offer.tenant)] += 1
        state = "delayed" if offer.delay_ms else "waiting"
        job = Job(offer.queue, offer.tenant, len(offer.payload), offer.cost_ms or 0, state, offer.retries)
        job.promised = "objective_s" in self.policies[offer.queue]
        self.jobs[offer.id] = job
        self.known[offer.queue].add(offer.tenant)
        self.count(job, "offered", "accepted", *(["over_bound"] if over_bound else []))
        for link in offer.links:
            self.links[link] = offer.id

    def refuse(self, offer: Offer) -> None:
        for name in ("offered", "refused"):
            self.counts[(offer.queue, offer.tenant, name)] += 1

    # What producers do.

    def new_offer(self, draw: Any, **facts: Any) -> Offer:
        self.number += 1
        given = {
            "id": f"j{self.number}",
            "task": draw(st.sampled_from(["t", "u"])),
            "queue": draw(st.sampled_from(QUEUES)),
            "tenant": draw(st.sampled_from(TENANTS)),
            "payload": b"x" * draw(st.integers(1, 50)),
            "cost_ms": draw(st.sampled_from([1, 100, 300])),
            "delay_ms": draw(st.sampled_from([0, 0, 0, HOUR_MS])),
            "deadline_ms": draw(st.sampled_from([None, None, HOUR_MS, 2 * HOUR_MS])),
            "downstream": draw(st.sampled_from([None, None, None, "own"])),
            "minted": draw(st.booleans()),  # then it may go the plain way
        }
        return Offer(**{**given, **facts})

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.store.snapshot()
        for queue in ("normal", "bulk"):
            self.change_policy(data, queue)

    @rule(data=st.data(), number=st.integers(1, 4))
    def offer_some(self, data: st.DataObject, number: int) -> None:
        for _ in range(number):
            self.offer_one(self.new_offer(data.draw))

    @rule(data=st.data(), number=st.integers(1, 4))
    def offer_some_plain(self, data: st.DataObject, number: int) -> None:
        for _ in range(number):
            plain = {"minted": True, "delay_ms": 0, "downstream": None}
            self.offer_one(self.new_offer(data.draw, **plain))

    @rule(data=st.data())
    def offer_the_first_of_a_chain(self, data: st.DataObject) -> None:
        self.offer_one(self.new_offer(data.draw, links=(f"l{self.number}", f"m{self.number}")))

    def offer_one(self, offer: Offer) -> None:
        cost = self.cheap_cost()
        other = self.expect_other_outcome(offer)
        reasons = self.true_reasons(offer)
        verdict = self.store.admit([offer])[0]
        assert (verdict.phase == "spilled", verdict.degraded_from is not None) == (
            other == "spill",
            other == "degrade",
        )
        if other == "spill":
            self.enter(offer)
            job = self.jobs[offer.id]
            job.state, job.later, job.place = "spilled", job.state == "delayed", self.number
        elif other == "degrade":
            asked = self.policies[offer.queue]
            cheap = replace(offer, queue=asked.get("degrade_queue") or offer.queue, cost_ms=cost)
            assert verdict.queue == cheap.queue
            self.counts[(offer.queue, offer.tenant, "degraded")] += 1
            self.enter(cheap)
        elif verdict.accepted:
            assert not reasons
            self.enter(offer)
        else:
            if not reasons:
                # Behind those of its tenant that are spilled, where the spill is full too.
                assert self.spilled(offer.queue, offer.tenant)
                reasons = {"count"}
            assert verdict.reason in reasons
            assert verdict.retry_after_s is not None
            assert verdict.retry_after_s > 0
            self.refuse(offer)

    def cheap_cost(self) -> int:
        return int(self.store.client.hget(self.store.root + "rules", "cost|cheap") or 100)

    def expect_other_outcome(self, offer: Offer) -> str:
        """Whether this offer is spilled or degraded now, or neither."""
        p, reasons = self.policies[offer.queue], self.true_reasons(offer)
        at_bound = bool(reasons) and reasons <= {"count", "bytes", "cost", "tenant"}
        if p.get("on_full") == "spill":
            behind = not reasons and bool(self.spilled(offer.queue, offer.tenant))
            return "spill" if (at_bound or behind) and self.has_spill_room(offer) else ""
        if p.get("on_full") == "degrade" and at_bound:
            cheap = replace(offer, queue=p.get("degrade_queue") or offer.queue, cost_ms=self.cheap_cost())
            room = 1 + p.get("degrade_reserve", 0)
            return "" if self.true_reasons(cheap, room) else "degrade"
        return ""

    @precondition(
        lambda self: not any(p.get("on_full") in ("spill", "degrade") for p in self.policies.values())
    )
    @rule(data=st.data(), number=st.integers(2, 4))
    def offer_a_canvas(self, data: st.DataObject, number: int) -> None:
        offers = [self.new_offer(data.draw) for _ in range(number)]
        before, known = dict(self.jobs), {queue: set(names) for queue, names in self.known.items()}
        counts, charged = self.counts.copy(), self.charged.copy()
        refusal: set[str] = set()
        for offer in offers:
            reasons = self.true_reasons(offer)
            if reasons:
                refusal |= reasons
            else:
                # Within one call a tenant counts as known once the whole is accepted.
                seen = self.known[offer.queue].copy()
                self.enter(offer)
                self.known[offer.queue] = seen
        verdicts = self.store.admit(offers, whole=True)
        if refusal:
            assert all(v.reason in refusal for v in verdicts)
            self.jobs, self.known, self.counts, self.charged = before, known, counts, charged
            for offer in offers:
                self.refuse(offer)
        else:
            assert all(v.accepted for v in verdicts)
            for offer in offers:
                self.known[offer.queue].add(offer.tenant)

    @precondition(
        lambda self: not any(p.get("on_full") in ("spill", "degrade") for p in self.policies.values())
    )
    @rule(data=st.data(), key=st.sampled_from(["k1", "k2"]), body=st.sampled_from(["x", "y"]))
    def offer_with_a_key(self, data: st.DataObject, key: str, body: str) -> None:
        offer = self.new_offer(data.draw, idempotency_key=key, idempotency_hash=body)
        reasons = self.true_reasons(offer)
        verdict = self.store.admit([offer])[0]
        known = self.keys.get((offer.tenant, key))
        if known is not None:
            assert verdict.id == known[0]
            assert verdict.accepted == (known[1] == body)
            assert verdict.conflict == (known[1] != body)
        elif verdict.accepted:
            assert not reasons
            self.keys[(offer.tenant, key)] = (offer.id, body)
            self.enter(offer)
        else:
            assert verdict.reason in reasons
            self.refuse(offer)

    @counted
    def offer_again(self, data: st.DataObject) -> None:
        op_id = data.draw(st.sampled_from(sorted(self.jobs)))
        job = self.jobs[op_id]
        again = Offer(op_id, "t", job.queue, b"again", job.tenant, retries=job.retries)
        verdict = self.store.admit([replace(again, minted=data.draw(st.booleans()))])[0]
        assert (verdict.accepted, verdict.duplicate_of) == (True, op_id)

    @precondition(lambda self: self.in_state("leased"))
    @rule(data=st.data(), delayed=st.booleans(), size=st.integers(1, 50))
    def publish_a_retry(self, data: st.DataObject, delayed: bool, size: int) -> None:
        self.retry_one(data.draw(st.sampled_from(self.in_state("leased"))), delayed, size)

    def retry_one(self, op_id: str, delayed: bool, size: int) -> None:
        job = self.jobs[op_id]
        delay_ms = HOUR_MS if delayed else 0
        offer = Offer(
            op_id,
            "t",
            job.queue,
            b"r" * size,
            job.tenant,
            retries=job.retries + 1,
            delay_ms=delay_ms,
            cost_ms=1,
        )
        verdict = self.store.admit([offer])[0]
        assert verdict.accepted
        if job.erased:
            assert verdict.duplicate_of == op_id
            return
        job.successor = (offer.retries, size, delayed)

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def publish_a_link(self, data: st.DataObject) -> None:
        link = data.draw(st.sampled_from(sorted(self.links)))
        parent = self.jobs[self.links.pop(link)]
        offer = self.new_offer(data.draw, id=link, minted=False)
        over = bool(self.bounds_passed(offer) - {"rate"})
        assert self.store.admit([offer])[0].accepted
        self.enter(offer, over_bound=over, is_link=True)
        if parent.cancel_asked or parent.erased or parent.state == "cancelled":
            self.end(link, "cancelled")

    @counted
    def refuse_locally(self, data: st.DataObject) -> None:
        queue, tenant = data.draw(st.sampled_from(QUEUES)), data.draw(st.sampled_from(TENANTS))
        number = data.draw(st.integers(1, 5))
        self.store.report_refusals({(queue, tenant, "count"): number})
        for name in ("offered", "refused"):
            self.counts[(queue, tenant, name)] += number

    # What workers do.

    @rule(
        queues=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True), most=st.integers(1, 4)
    )
    def claim(self, queues: list[str], most: int) -> None:
        self.take(queues, most)

    @precondition(lambda self: self.in_state("leased"))
    @rule(
        data=st.data(),
        queues=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True),
        most=st.integers(1, 4),
    )
    def end_and_claim(self, data: st.DataObject, queues: list[str], most: int) -> None:
        """A worker's turn: what it has done with frees a slot for what it takes, in one step."""
        op_id = data.draw(st.sampled_from(self.in_state("leased")))
        job = self.jobs[op_id]
        if job.successor is not None:
            return
        assert job.epoch is not None
        if not job.started:
            self.count(job, "started")
        job.stale_epochs.append(job.epoch)
        self.end(op_id, "succeeded")
        now_ms = self.store.clock.now_ms()
        self.take(queues, most, [Settlement(op_id, job.epoch, "succeeded", started_at_ms=now_ms, run_ms=5)])

    def take(self, queues: list[str], most: int, ends: Sequence[Settlement] = ()) -> None:
        self.promote_due(queues)
        depths = {q: sum(1 for i in self.in_state("waiting") if self.jobs[i].queue == q) for q in queues}
        levels = {queue: self.level(queue) for queue in queues}
        eligible = {
            i: r.get("e", r["a"]) for i, r in audit.records(self.store).items() if r["s"] == "waiting"
        }
        lifo = "saturated" in self.modes.values()
        turn = self.store.take_turn("w", queues, most, ends)
        assert turn.words == ["settled"] * len(ends)
        claimed = turn.jobs
        after = audit.records(self.store)
        for op_id in self.in_state("waiting"):
            self.jobs[op_id].aside = after[op_id]["s"] == "parked"
            if after[op_id]["s"] == "shed":
                assert "codel_target_ms" in self.policies[self.jobs[op_id].queue]
                self.end(op_id, "shed")
        self.see_who_was_let_in(levels, {queue for queue in queues if depths[queue] <= most})
        for op_id in self.in_state("waiting"):
            job = self.jobs[op_id]
            if job.expired and job.queue in queues and audit.records(self.store)[op_id]["s"] == "expired":
                self.end(op_id, "expired")
        for got in claimed:
            job = self.jobs[got.id]
            assert job.state == "waiting"
            assert not job.expired
            assert job.queue in queues
            assert job.tenant not in self.suspended
            waiting = self.runnable()
            if job.queue != "critical" and "critical" in queues:
                assert not any(j.queue == "critical" and not j.expired for j in waiting)
            order = self.policies[job.queue].get("order")
            if order != "edf" and (order != "lifo" or not lifo):
                line = [
                    eligible.get(i, 0)
                    for i in self.in_state("waiting")
                    if (self.jobs[i].queue, self.jobs[i].tenant) == (job.queue, job.tenant)
                    and i in eligible
                    and not self.jobs[i].aside
                ]
                assert got.id not in eligible or eligible[got.id] <= min(line)
            busy = sum(1 for i in self.in_state("leased") if self.jobs[i].queue == job.queue)
            assert busy < self.policies[job.queue].get("max_in_flight", busy + 1)
            for mark, limit in self.held_by(after[got.id]):
                assert sum(mark == other for rec in after.values() for other, _ in self.held_by(rec)) <= limit
            assert got.epoch > self.newest_epoch
            assert len(got.payload) == job.size
            self.newest_epoch = got.epoch
            job.state, job.epoch, job.started, job.aside = "leased", got.epoch, False, False
            job.deliveries += 1
            assert got.deliveries == job.deliveries
        if len(claimed) < most:
            for job in self.runnable():
                queue = job.queue
                assert queue not in queues or {"max_in_flight", "downstream"} & set(self.policies[queue])

    def held_by(self, rec: dict[str, Any]) -> list[tuple[Any, int]]:
        """What a job in flight holds, and how many may hold it at once."""
        held: list[tuple[Any, int]] = []
        if rec["s"] == "leased" and "kd" in rec:
            held.append((rec["kd"], self.limits[rec["kd"]]))
        if rec["s"] == "leased" and "kt" in rec:
            caps = self.policies[rec["q"]].get("max_in_flight_per_task") or {}
            held.append(((rec["q"], rec["kt"]), caps.get(rec["kt"], 1_000)))
        return held

    def see_who_was_let_in(self, levels: dict[str, tuple[int, int, int]], asked: set[str]) -> None:
        """From under the low mark of every bound up to the high mark, each tenant's in order."""
        found = audit.records(self.store)
        for queue, before in levels.items():
            gone = [i for i in self.spilled(queue) if found[i]["s"] != "spilled"]
            p = self.policies[queue]
            bounds = [p.get(name, float("inf")) for name in ("max_count", "max_bytes", "max_cost_ms")]
            may = all(value <= bound * 0.5 for value, bound in zip(before, bounds, strict=True))
            assert may or not gone
            if queue in asked and may and bounds[1:] == [float("inf")] * 2 and before[0] == 0:
                assert gone or not self.spilled(queue)
            for tenant in TENANTS:
                own = self.spilled(queue, tenant)
                assert [i for i in own if i in gone] == own[: len([i for i in own if i in gone])]
            for op_id in gone:
                self.jobs[op_id].state = "delayed" if self.jobs[op_id].later else "waiting"
            after = self.level(queue)
            if len(gone) > 1 or (gone and before[0]):
                assert all(value <= bound * 0.9 for value, bound in zip(after, bounds, strict=True))

    @precondition(lambda self: self.in_state("leased"))
    @rule(data=st.data(), number=st.integers(1, 4))
    def do_some_jobs(self, data: st.DataObject, number: int) -> None:
        for _ in range(min(number, len(self.in_state("leased")))):
            self.settle_one(data, "succeeded", True, False)

    @precondition(lambda self: self.in_state("waiting"))
    @rule(data=st.data(), most=st.integers(1, 4))
    def work(self, data: st.DataObject, most: int) -> None:
        """A claim of everything; what comes of each job is drawn."""
        self.take(list(QUEUES), most)
        for op_id in self.in_state("leased"):
            match data.draw(st.sampled_from(["hold", "renew", "retry", "cancel", "run out", *OUTCOMES])):
                case "hold":
                    pass
                case "renew":
                    self.renew_one(op_id, True)
                case "retry":
                    self.retry_one(op_id, data.draw(st.booleans()), 3)
                    self.settle_one(data, "retry", True, False, op_id)
                case "cancel":
                    self.cancel_one(op_id)
                case "run out":
                    self.run_out(op_id)
                case outcome:
                    self.settle_one(data, outcome, data.draw(st.booleans()), data.draw(st.booleans()), op_id)

    @precondition(lambda self: self.in_state("leased"))
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES), started=st.booleans(), again_later=st.booleans())
    def settle(self, data: st.DataObject, outcome: str, started: bool, again_later: bool) -> None:
        self.settle_one(data, outcome, started, again_later)

    def settle_one(
        self, data: st.DataObject, outcome: str, started: bool, again_later: bool, op_id: str | None = None
    ) -> None:
        op_id = op_id or data.draw(st.sampled_from(self.in_state("leased")))
        job = self.jobs[op_id]
        delay = HOUR_MS if again_later and outcome in ("requeued", "retry") else None
        error = {"type": "E", "message": "m", "traceback": ""} if outcome in ("failed", "retry") else None
        assert job.epoch is not None
        end = Settlement(
            op_id,
            job.epoch,
            outcome,
            started_at_ms=self.store.clock.now_ms() if started else None,
            run_ms=5 if started else None,
            error=error,
            delay_ms=delay,
        )
        word = self.store.settle([end])[0]
        job.stale_epochs.append(job.epoch)
        if started and not job.started:
            self.count(job, "started")
        had_successor = job.successor is not None
        if outcome == "released":
            job.deliveries -= 1
            if job.cancel_asked:
                self.end(op_id, "cancelled")
            else:
                self.back(op_id)
                assert word == "returned"
        elif outcome == "lost":
            self.lose(op_id)
        elif job.cancel_asked and (had_successor or outcome not in ("succeeded", "failed")):
            self.end(op_id, "cancelled")
            assert word == "settled"
        elif had_successor:
            self.count(job, "retried")
            self.back(op_id)
            assert word == "retried"
        elif outcome in ("retry", "requeued") and delay is None and job.deliveries >= MAX_DELIVERIES:
            self.count(job, "quarantined")
            self.end(op_id, "failed")
            assert word == "quarantined"
        elif outcome in ("retry", "requeued"):
            if delay is None:
                self.count(job, "redelivered")
            self.back(op_id, delayed=delay is not None)
            assert word == "returned"
        else:
            if outcome == "failed" and not job.erased:
                self.count(job, "quarantined")
            self.end(op_id, "succeeded" if outcome == "ignored" else outcome)
            assert word == ("quarantined" if outcome == "failed" else "settled")

    @precondition(lambda self: any(job.stale_epochs for job in self.jobs.values()))
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def settle_too_late(self, data: st.DataObject, outcome: str) -> None:
        op_id = data.draw(st.sampled_from([i for i, job in self.jobs.items() if job.stale_epochs]))
        stale = data.draw(st.sampled_from(self.jobs[op_id].stale_epochs))
        assert self.store.settle([Settlement(op_id, stale, outcome, started_at_ms=1)]) == ["stale"]

    @precondition(lambda self: self.in_state("leased"))
    @rule(data=st.data(), started=st.booleans())
    def renew(self, data: st.DataObject, started: bool) -> None:
        self.renew_one(data.draw(st.sampled_from(self.in_state("leased"))), started)

    def renew_one(self, op_id: str, started: bool) -> None:
        job = self.jobs[op_id]
        assert job.epoch is not None
        stale = [(op_id, epoch, None) for epoch in job.stale_epochs[-1:]]
        at_ms = self.store.clock.now_ms() if started else None
        lost, stop = self.store.renew("w", None, [(op_id, job.epoch, at_ms), *stale])
        assert lost == [op_id] * len(stale)
        assert stop == ([op_id] if job.cancel_asked else [])
        job.run_out = False
        if started and not job.started:
            job.started = True
            self.count(job, "started")

    # What time does.

    @precondition(lambda self: self.in_state("leased"))
    @rule(data=st.data())
    def let_a_lease_run_out(self, data: st.DataObject) -> None:
        self.run_out(data.draw(st.sampled_from(self.in_state("leased"))))

    def run_out(self, op_id: str) -> None:
        self.store.client.zadd(self.store.root + "leases", {op_id: 1})
        self.jobs[op_id].run_out = True

    @rule()
    def reap(self) -> None:
        expected = {op_id for op_id in self.in_state("leased") if self.jobs[op_id].run_out}
        taken = self.store.reap()
        assert {row["id"] for row in taken} == expected
        for row in taken:
            job = self.jobs[row["id"]]
            assert job.epoch is not None
            job.stale_epochs.append(job.epoch)
            self.lose(row["id"])

    @precondition(lambda self: self.in_state("delayed"))
    @rule(data=st.data())
    def let_a_delay_pass(self, data: st.DataObject) -> None:
        op_id = data.draw(st.sampled_from(self.in_state("delayed")))
        job = self.jobs[op_id]
        self.store.client.zadd(
            f"{self.store.root}delayed:{job.queue}", {op_id: self.store.clock.now_ms() - 10}
        )
        job.due = True

    def promote_due(self, queues: list[str]) -> int:
        due = [i for i in self.in_state("delayed") if self.jobs[i].due and self.jobs[i].queue in queues]
        for op_id in due:
            self.jobs[op_id].state, self.jobs[op_id].due = "waiting", False
        return len(due)

    @rule(queues=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True))
    def promote(self, queues: list[str]) -> None:
        moved = self.promote_due(queues)
        levels = {queue: self.level(queue) for queue in queues}
        assert self.store.promote(queues) == moved
        self.see_who_was_let_in(levels, set(queues))

    @precondition(lambda self: self.in_state("waiting"))
    @rule(data=st.data())
    def let_a_deadline_pass(self, data: st.DataObject) -> None:
        op_id = data.draw(st.sampled_from(self.in_state("waiting")))
        rec = audit.records(self.store)[op_id]
        rec["dd"] = 1
        self.store.client.hset(self.store.root + "ops", op_id, msgpack.packb(rec))
        if rec["s"] == "waiting" and self.policies[rec["q"]].get("order") == "edf":
            self.store.client.zadd(f"{self.store.root}deadlines:{rec['q']}|{rec['n']}", {op_id: 1})
        self.jobs[op_id].expired = True

    @precondition(lambda self: self.runnable())
    @rule(data=st.data(), by_ms=st.sampled_from([1, 5_000, 600_000]))
    def let_a_job_grow_old(self, data: st.DataObject, by_ms: int) -> None:
        line = [op_id for op_id in self.in_state("waiting") if self.jobs[op_id].tenant not in self.suspended]
        op_id = data.draw(st.sampled_from(line))
        line = f"{self.store.root}ready:{self.jobs[op_id].queue}|{self.jobs[op_id].tenant}"
        for first in self.store.client.zrange(line, 0, 0):
            make_older(self.store, first.decode(), by_ms)

    # What operators do.

    @precondition(lambda self: not self.modes)
    @rule(
        scope=st.sampled_from(["*", "normal", "bulk"]),
        mode=st.sampled_from(["normal", "saturated", "draining", "failed"]),
    )
    def set_mode(self, scope: str, mode: str) -> None:
        self.store.set_mode(scope, mode, by="o", reason="model")
        self.modes[scope] = mode

    @precondition(lambda self: self.modes)
    @rule()
    def go_back_to_normal(self) -> None:
        for scope in ("*", "normal", "bulk"):
            self.store.clear_mode(scope)
        self.modes.clear()

    @precondition(lambda self: self.jobs and not self.suspended)
    @rule(tenant=st.sampled_from(TENANTS))
    def suspend(self, tenant: str) -> None:
        self.store.suspend_tenant(tenant, {"by": "o", "reason": "model", "at_ms": 1})
        self.suspended.add(tenant)

    @precondition(lambda self: self.suspended)
    @rule()
    def resume(self) -> None:
        for tenant in self.suspended:
            waits = sum(self.jobs[op_id].tenant == tenant for op_id in self.in_state("waiting"))
            assert self.store.resume_tenant(tenant) <= waits
        self.suspended.clear()

    @rule(data=st.data(), queue=st.sampled_from(QUEUES))
    def change_policy(self, data: st.DataObject, queue: str) -> None:
        self.policies[queue] = data.draw(st.sampled_from(POLICIES[queue]))
        self.publish({queue: self.policies[queue]})

    @rule(name=st.sampled_from(DOWNSTREAMS), limit=st.integers(1, 3))
    def limit_downstream(self, name: str, limit: int) -> None:
        fields = parse_downstream({"min": limit, "max": limit, "initial": limit}).as_fields()
        self.store.publish_downstream(name, fields, version=1)
        self.limits[name] = limit

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.cancel_one(data.draw(st.sampled_from(sorted(self.jobs))))

    def cancel_one(self, op_id: str) -> None:
        job = self.jobs[op_id]
        reply = self.store.cancel(op_id, by="o")
        if job.state in ("waiting", "delayed", "spilled"):
            assert (reply.result, reply.status, reply.changed) == ("cancelled", "cancelled", True)
            job.cancel_asked = True
            self.end(op_id, "cancelled")
        elif job.state == "leased":
            assert (reply.result, reply.changed) == ("requested", not job.cancel_asked)
            job.cancel_asked = True
        else:
            assert reply.result == ("cancelled" if job.state == "cancelled" else "settled")
            assert (reply.status, reply.changed) == (job.state, False)

    @precondition(lambda self: len(self.jobs) > 5)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        op_ids = data.draw(st.lists(st.sampled_from(sorted(self.jobs)), min_size=1, max_size=3, unique=True))
        for gone in self.store.erase("receipt", op_ids):
            job = self.jobs[gone.id]
            if job.erased:
                assert gone.place == "again"
            elif job.state in ("waiting", "delayed", "spilled"):
                assert gone.place == job.state
                self.end(gone.id, "cancelled")
            elif job.state == "leased":
                assert gone.place == "running"
                job.cancel_asked, job.successor = True, None
            else:
                assert gone.place in ("settled", "held")
            job.erased = True

    @counted
    def cancel_what_is_of_another(self, data: st.DataObject) -> None:
        op_id = data.draw(st.sampled_from(sorted(self.jobs)))
        assert self.store.cancel(op_id, by="o", tenant="stranger").result == "unknown"

    @precondition(lambda self: len(self.in_state("waiting", "delayed", "spilled")) > 5)
    @rule(queue=st.sampled_from(QUEUES))
    def purge(self, queue: str) -> None:
        pending = [i for i in self.in_state("waiting", "delayed", "spilled") if self.jobs[i].queue == queue]
        assert self.store.purge(queue, by="o") == len(pending)
        for op_id in pending:
            self.jobs[op_id].cancel_asked = True
            self.end(op_id, "cancelled")

    @counted
    def hold_what_cannot_be_read(self, data: st.DataObject) -> None:
        queue = data.draw(st.sampled_from(QUEUES))
        self.store.client.lpush(queue, b"not-json")
        op_id = self.store.hold_unreadable(queue, b"not-json", queue=queue, error_type="E", message="m")
        assert op_id is not None
        job = Job(queue, "default", 8, 0, "failed")
        self.jobs[op_id] = job
        self.known[queue].add("default")
        self.count(job, "offered", "accepted", "quarantined")
        self.end(op_id, "failed")

    @counted
    def record_quarantined(self, data: st.DataObject) -> None:
        held = self.store.read_quarantine_spool(100)
        assert all(self.jobs[row.id].state == "failed" for row in held)
        assert self.store.forget_spooled([row.id for row in held]) == len(held)

    @precondition(lambda self: self.jobs)
    @make_rule(data=st.data())
    def do_what_is_rare(self, data: st.DataObject) -> None:
        rare = (
            self.offer_again,
            self.cancel_what_is_of_another,
            self.refuse_locally,
            self.hold_what_cannot_be_read,
            self.record_quarantined,
        )
        data.draw(st.sampled_from(rare))(data)

    # What must hold after each step.

    @invariant()
    def it_adds_up_and_is_what_the_model_says(self) -> None:
        contents = audit.Contents(self.store)
        faults = audit.find_faults(self.store, contents)
        assert not faults, "\n".join(faults[:20])
        found = contents.records
        assert {i: "waiting" if rec["s"] == "parked" else rec["s"] for i, rec in found.items()} == {
            i: job.state for i, job in self.jobs.items()
        }
        for op_id in self.in_state("leased"):
            assert found[op_id]["ep"] == self.jobs[op_id].epoch
        for op_id, status in self.ended.items():
            assert found[op_id]["s"] == status
        for queue in QUEUES:
            for tenant in (*TENANTS, "default"):
                row = contents.numbers(f"tenant:{queue}|{tenant}")
                for name in COUNTED:
                    wanted = self.counts[(queue, tenant, name)]
                    assert row.get(name, 0) == wanted, f"{queue}|{tenant} {name}"

    def teardown(self) -> None:
        audit.check(self.store)


def run_machine(store: Store, *, examples: int) -> None:
    GateMachine.store = store
    for name in STEPS:
        STEPS[name] = 0
    run_state_machine_as_test(
        GateMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


def test_the_gate_does_what_its_model_says(store: Store) -> None:
    run_machine(store, examples=30)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_gate_does_what_its_model_says_at_length(store: Store) -> None:
    run_machine(store, examples=1000)
    print(f"{STEPS.total():,} steps")
    for name, number in STEPS.most_common():
        print(f"{number:>8,}  {name}")
    assert not [name for name, number in STEPS.items() if not number]

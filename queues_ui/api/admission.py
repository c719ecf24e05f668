"""How does the gate's verdict become an answer?"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from workers.actions.gate import redis_now_ms
from workers.limits.producer import Producer
from workers.states import REASON_STATUS, REMEDIES
from workers.store import Offer, Store, Verdict
from workers.store.offers import RateLeft, Ticket, say_figures

from ..access.counted import teller
from ..access.patience import ROOM_HEADER
from ..queries.durability import note_of
from ..queries.engine import open_gate
from ..queries.standing_mode import CLOSED, find_mode, say_mode
from .problems import Problem, whole_seconds

ANSWER_WITHIN_MS: Final = 900  # just under the door's own timeout: later than this nothing is accepted
JITTER: Final = 0.25  # at most this part is added to a time to come back, never taken off
TICKET_HEADER: Final = "Sluicegate-Ticket"
DETAILS: Final = {
    "count": "The queue holds as many jobs as its policy allows.",
    "bytes": "The queue holds as many bytes as its policy allows.",
    "cost": "The queue holds as much work as its policy allows.",
    "age": "The oldest job of the queue waits longer than its policy allows.",
    "tenant": "This tenant has its share of the queue.",
    "rate": "The rate limit is reached.",
    "deadline": "It would not be done before its deadline.",
    "downstream": "What this work calls is at its limit.",
    "waiting_room": "The queue is full and its waiting room too: no ticket is left.",
    "mode": "The gate's mode does not admit this now.",
    "unavailable": "The gate cannot accept now.",
    "size": "The job alone is larger than the queue's bound in bytes.",
    "suspended": "This tenant is suspended; an operator may resume it.",
    "revoked": "This key was revoked.",
    "duplicate": "This Idempotency-Key belongs to another body.",
    **{reason: f"{said[0].upper()}{said[1:]}." for reason, said in REMEDIES.items()},
}


def admit(store: Store, offers: Sequence[Offer], *, whole: bool = False) -> list[Verdict]:
    """Verdicts, or StoreUnavailable with nothing accepted, now or when Redis wakes up."""
    producer = teller().producer
    limit = redis_now_ms(store) + ANSWER_WITHIN_MS
    here = {place: found for place, offer in enumerate(offers) if (found := _refuse_here(producer, offer))}
    if whole and here:
        here = dict.fromkeys(range(len(offers)), next(iter(here.values())))
    if here:
        teller().wake()
        store.report_refusals(Counter((offers[i].queue, offers[i].tenant, "rate") for i in here))
    asked = [offer for place, offer in enumerate(offers) if place not in here]
    told = (
        producer.admit(asked, lambda them: store.admit(them, whole=whole, not_after_ms=limit))
        if asked
        else []
    )
    verdicts = iter(told)
    return [
        Verdict(False, offer.id, offer.queue, "refused", "rate", here[place])
        if place in here
        else next(verdicts)
        for place, offer in enumerate(offers)
    ]


def _refuse_here(producer: Producer, offer: Offer) -> float | None:
    """Seconds for which a limit that each producer counts by itself refuses this offer."""
    if producer.is_at_ease:
        return None
    found = producer.why_not(offer.queue, offer.tenant, offer.api_key, by_credits=False)
    return found[1] if found else None


def answer_of(verdict: Verdict, *, durability: str) -> dict[str, Any]:
    """The 202 of an accepted job, or the problem of a refused one."""
    if not verdict.accepted and not (verdict.status == "shed"):
        raise problem_of(verdict)
    reached = verdict.durability or durability
    answer: dict[str, Any] = {
        "operation_id": verdict.id,
        "status": verdict.status,
        "queue": verdict.queue,
        "accepted_at_ms": verdict.accepted_at_ms,
        "durability": reached,
        "status_url": f"/api/v1/jobs/{verdict.id}",
    }
    note = note_of(reached) if verdict.status != "shed" and not verdict.duplicate_of else None
    if note:
        answer["durability_note"] = note
    if verdict.status == "shed":
        answer["reason"] = verdict.reason
    if verdict.phase == "spilled":
        answer["phase"] = verdict.phase
    if verdict.degraded_from:
        answer["degraded_from"] = verdict.degraded_from
    return answer


def problem_of(verdict: Verdict) -> Problem:
    reason = verdict.reason or "unavailable"
    status = REASON_STATUS.get(reason, 503)
    if status not in (429, 503):
        return Problem(
            status, reason, _detail_of(verdict), queue=verdict.queue, field=_field_at_fault(verdict)
        )
    mode = find_mode(open_gate(), verdict.queue, reason) if reason in CLOSED else None
    promised = verdict.retry_after_s or 1.0
    seconds = whole_seconds(promised * (1 + random.random() * JITTER))
    headers = (
        rate_fields(verdict.rates, seconds)
        if verdict.rates and reason == "rate"
        else bound_fields(reason, verdict.figures, seconds, verdict.unit)
    )
    if verdict.ticket is not None:
        headers[TICKET_HEADER] = verdict.ticket.id
    if verdict.block_s > 0:
        headers[ROOM_HEADER] = f"{verdict.queue};{verdict.block_s:g}"
    return Problem(
        status,
        reason,
        say_mode(mode, verdict.queue) if mode else _detail_of(verdict),
        queue=verdict.queue,
        retry_after_s=seconds,
        headers=headers,
        extra={
            **({"figures": verdict.figures} if verdict.figures else {}),
            **({"unit": verdict.unit} if verdict.unit else {}),
            **({"mode": mode} if mode else {}),
            **(tell_ticket(verdict.ticket) if verdict.ticket else {}),
        },
    )


def tell_ticket(ticket: Ticket) -> dict[str, Any]:
    """A ticket as answers show it; its modeled time is null where no rate is known."""
    told: dict[str, Any] = {
        "ticket": ticket.id,
        "state": "called" if ticket.position == 0 else "waiting",
        "position": ticket.position,
        "tickets_out": ticket.out,
        "modeled_wait_s": ticket.modeled_s,
        "come_back_until_at_ms": ticket.until_at_ms,
        "ticket_url": f"/api/v1/tickets/{ticket.id}",
    }
    if ticket.modeled_s is None:
        told["unknown"] = {"modeled_wait_s": "no service rate has been measured yet"}
    return told


def rate_fields(rates: Sequence[RateLeft], seconds: int | None = None) -> dict[str, str]:
    """draft-ietf-httpapi-ratelimit-headers-10: each rate limit, what is left, and until when.

    `w` is left out where a window is no whole number of seconds. Where a limit has refused, `t` says the same
    as Retry-After; else it is when the quota is whole again.
    """
    policies, left = [], []
    for rate in rates:
        name = f"{rate.per}-{rate.kind}-{rate.window_ms / 1000:g}s"
        window = f";w={rate.window_ms // 1000}" if rate.window_ms % 1000 == 0 else ""
        policies.append(f'"{name}";q={rate.limit};qu="requests"{window}')
        over = rate.left < 1 and seconds is not None
        left.append(
            f'"{name}";r={max(0, rate.left)};t={seconds if over else math.ceil(rate.reset_ms / 1000)}'
        )
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(left)} if rates else {}


def bound_fields(
    reason: str, figures: dict[str, float], seconds: int, counted_in: str | None = None
) -> dict[str, str]:
    """The same for a bound: nothing is left of it."""
    quota = max(0, int(figures.get("bound", 0)))
    unit = "content-bytes" if counted_in == "bytes" else "concurrent-requests"
    return {
        "RateLimit-Policy": f'"{reason}";q={quota};qu="{unit}"',
        "RateLimit": f'"{reason}";r=0;t={seconds}',
    }


def _detail_of(verdict: Verdict) -> str:
    reason = verdict.reason or "unavailable"
    if reason == "duplicate" and not verdict.conflict:
        return f"A job of this key was accepted with the same or a newer source_sequence: {_newest(verdict)}."
    said = DETAILS.get(reason, reason)
    if verdict.ticket is not None and reason == "waiting_room":
        return "Others wait in line: come back with this ticket, in the header Sluicegate-Ticket."
    figures = _limits_reached(verdict) if reason == "rate" else say_figures(verdict)
    told = f"{said[:-1]}: {figures}." if figures else said
    # A place is kept in jobs; another bound may be full all the same.
    return f"{told} Come back with the ticket, in the header Sluicegate-Ticket." if verdict.ticket else told


def _limits_reached(verdict: Verdict) -> str:
    """Those limits of a refusal of which nothing is left."""
    reached = [rate for rate in verdict.rates if rate.left < 1]
    return " and ".join(f"{rate.limit} in {rate.window_ms / 1000:g} s per {rate.per}" for rate in reached)


def _newest(verdict: Verdict) -> str:
    newest = verdict.figures.get("bound")
    return "it is not known which" if newest is None else f"{newest:.0f}"


def _field_at_fault(verdict: Verdict) -> str | None:
    if verdict.reason == "duplicate":
        return "Idempotency-Key" if verdict.conflict else "source_sequence"
    return {"size": "body", "coalescing": "coalesce_key"}.get(verdict.reason or "")

"""Which work makes a demonstration believable? A small company's day, over and over, for four queues.

Below capacity most of the time, with bursts, some jobs that fail for good, and a minute of overload in every
ten: more events arrive while the service that enriches them is slow.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from .arrivals import Arrival, draw_name

TENANTS: Final[Mapping[str, float]] = {
    "larkspur-books": 4,
    "tideline-media": 3,
    "harbor-clinic": 2,
    "oakfield-school": 1,
}
#: The demonstration's downstreams, as the sink plays them: latency, spread (ms) and concurrency.
USUAL: Final[Mapping[str, Mapping[str, float]]] = {
    "payments": {"latency_ms": 90, "jitter_ms": 60, "concurrency": 8},
    "messages": {"latency_ms": 120, "jitter_ms": 80, "concurrency": 8},
    "fraud": {"latency_ms": 100, "jitter_ms": 80, "concurrency": 8},
    "profiles": {"latency_ms": 160, "jitter_ms": 120, "concurrency": 8},
    "partners": {"latency_ms": 150, "jitter_ms": 200, "concurrency": 4, "fail_share": 0.01},
}
SLOW_PROFILES: Final[Mapping[str, float]] = {"latency_ms": 900, "jitter_ms": 400, "concurrency": 8}

#: The first overload comes soon, so that whoever has just started it sees one.
FIRST_OVERLOAD_S, OVERLOAD_EVERY_S, OVERLOAD_S = 120.0, 600.0, 60.0
OVERLOAD_FACTOR = 3.0

#: One in so many of a stream's jobs is broken in a way that no retry mends.
BROKEN_ONE_IN = 60


@dataclass(frozen=True, slots=True)
class Stream:
    """Jobs a second for two worker slots; ``burst`` is how many come together (mean)."""

    rate_per_s: float
    make: Callable[[float, random.Random, str], Arrival]
    burst: float = 1.0
    grows: bool = False


def is_overload(at_s: float) -> bool:
    since = at_s - FIRST_OVERLOAD_S
    return since >= 0 and since % OVERLOAD_EVERY_S < OVERLOAD_S


def arrive_as_demonstration(sink: str, *, slots: int, source: random.Random) -> Iterator[Arrival]:
    """Endless. Rates are made for two slots and grow with them."""
    scale = max(1, slots) / 2
    streams = _streams(sink)
    coming: list[tuple[float, int]] = [(source.uniform(0, 2), number) for number in range(len(streams))]
    heapq.heapify(coming)
    while True:
        at_s, number = heapq.heappop(coming)
        stream = streams[number]
        size = 1 if stream.burst <= 1 else 1 + int(source.expovariate(1 / stream.burst))
        tenant = draw_name(TENANTS, source)  # a burst is one tenant's
        for _ in range(size):
            yield stream.make(at_s, source, tenant)
        rate_per_s = stream.rate_per_s * scale / max(1.0, stream.burst)
        if stream.grows and is_overload(at_s):
            rate_per_s *= OVERLOAD_FACTOR
        heapq.heappush(coming, (at_s + source.expovariate(rate_per_s), number))


def _streams(sink: str) -> list[Stream]:
    def pay(at_s: float, source: random.Random, tenant: str) -> Arrival:
        event = {
            "type": "payment.captured",
            "amount_cents": source.randrange(500, 20_000),
            "order": _number(source),
        }
        return Arrival(at_s, "webhooks.deliver", "critical", tenant, (f"{sink}/hooks/payments", event))

    def tell(at_s: float, source: random.Random, tenant: str) -> Arrival:
        kind = source.choice(["password.reset", "login.new_device", "order.confirmed"])
        event = {"type": kind, "account": _number(source)}
        return Arrival(at_s, "webhooks.deliver", "urgent", tenant, (f"{sink}/hooks/messages", event))

    def judge(at_s: float, source: random.Random, tenant: str) -> Arrival:
        event = {"type": "order.placed", "order": _number(source)}
        return Arrival(at_s, "events.enrich", "urgent", tenant, (event,), {"downstream": "fraud"})

    def enrich(at_s: float, source: random.Random, tenant: str) -> Arrival:
        event = {"type": source.choice(["page.viewed", "cart.changed"]), "account": _number(source)}
        return Arrival(at_s, "events.enrich", "normal", tenant, (event,), {"downstream": "profiles"})

    def deliver(at_s: float, source: random.Random, tenant: str) -> Arrival:
        # Some partner's endpoint was taken down and nobody told us.
        name = "gone" if source.randrange(BROKEN_ONE_IN) == 0 else "partners"
        event = {"type": "stock.changed", "article": _number(source)}
        return Arrival(at_s, "webhooks.deliver", "normal", tenant, (f"{sink}/hooks/{name}", event))

    def shrink(at_s: float, source: random.Random, tenant: str) -> Arrival:
        if source.randrange(BROKEN_ONE_IN) == 0:
            return Arrival(
                at_s, "images.thumbnail", "bulk", tenant, ("aW1hZ2UgY3V0IHNob3J0",)
            )  # an upload cut short
        width = source.choice([640, 800, 1280])
        sample = {"width": width, "height": width * 3 // 4, "seed": source.randrange(1000)}
        return Arrival(at_s, "images.thumbnail", "bulk", tenant, (), {"sample": sample})

    return [
        Stream(0.5, pay),
        Stream(0.7, tell),
        Stream(0.4, judge),
        Stream(1.6, enrich, grows=True),
        Stream(0.8, deliver, burst=4, grows=True),
        Stream(1.0, shrink, burst=25),  # albums
    ]


def _number(source: random.Random) -> int:
    return source.randrange(10_000, 100_000)


class SinkTuner:
    """Makes the sink slow while an overload lasts. A sink that does not answer is only noted."""

    def __init__(self, sink: str) -> None:
        self._sink = sink
        self._told: Mapping[str, Mapping[str, float]] = {}

    def tune(self, at_s: float) -> str | None:
        """The fault, if the sink could not be told."""
        wanted = {**USUAL, "profiles": SLOW_PROFILES} if is_overload(at_s) else USUAL
        if wanted == self._told:
            return None
        return self._tell(wanted)

    def restore(self) -> str | None:
        return None if self._told == USUAL else self._tell(USUAL)

    def _tell(self, wanted: Mapping[str, Mapping[str, float]]) -> str | None:
        try:
            with httpx.Client(trust_env=False, timeout=2) as client:
                for name, fields in wanted.items():
                    client.put(f"{self._sink}/settings/{name}", json=_json(fields)).raise_for_status()
        except httpx.HTTPError as fault:
            return f"the sink at {self._sink} cannot be told: {fault}"
        self._told = wanted
        return None


def _json(fields: Mapping[str, float]) -> dict[str, Any]:
    return dict(fields)

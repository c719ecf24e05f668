"""How would one queue fare under each of these policies? The same jobs, offered to each, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..store import Offer
from .clock import START_MS, SteppedStore
from .world import Arrival, World

QUEUE = "normal"
#: Offers of one trial at most: each costs about three calls of Redis.
MOST_OFFERS = 50_000


@dataclass(frozen=True, slots=True)
class Load:
    """What is offered: jobs a second at random (Poisson), each of the same service time and time to live."""

    per_s: float
    service_ms: int
    slots: int
    seconds: int
    deadline_s: float | None = None
    seed: int = 1

    def arrivals(self) -> list[Arrival]:
        chance, at_ms = random.Random(self.seed), 0.0
        found: list[Arrival] = []
        deadline_ms = None if self.deadline_s is None else round(self.deadline_s * 1000)
        while len(found) < MOST_OFFERS:
            at_ms += chance.expovariate(self.per_s) * 1000
            if at_ms >= self.seconds * 1000:
                break
            job = Offer(f"j{len(found)}", "t", QUEUE, b"{}", cost_ms=self.service_ms, deadline_ms=deadline_ms)
            found.append(Arrival(int(at_ms), job, self.service_ms))
        return found


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of one trial. Times are of the jobs that were served."""

    name: str
    offered: int
    refused: int
    shed: int
    expired: int
    done: int
    in_time_per_s: float
    wait_p50_ms: int | None
    wait_p99_ms: int | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_trial(
    store: SteppedStore,
    name: str,
    policy: Mapping[str, Any],
    load: Load,
    *,
    mode: str = "normal",
    on_tick: Callable[[SteppedStore], None] = lambda store: None,
) -> Figures:
    """One policy under the load, on an empty gate."""
    store.clear()
    store.now_ms = START_MS
    store.publish_policy(QUEUE, policy, version=1)
    store.set_mode("*", mode, by="simulation", reason="as asked")
    world = World(store, slots=load.slots, queues=(QUEUE,), on_tick=on_tick)
    arrivals = load.arrivals()
    world.run(arrivals, until_ms=load.seconds * 1000)
    totals = store.snapshot()["queues"][QUEUE]["totals"]
    waits = sorted(job.started_ms - job.arrived_ms for job in world.ended)
    return Figures(
        name=name,
        offered=len(arrivals),
        refused=totals["refused"],
        shed=totals["shed"],
        expired=totals["expired"],
        done=len(world.ended),
        in_time_per_s=round(sum(job.in_time for job in world.ended) / load.seconds, 1),
        wait_p50_ms=_at_share(waits, 0.5),
        wait_p99_ms=_at_share(waits, 0.99),
    )


def _at_share(ordered: Sequence[int], share: float) -> int | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None

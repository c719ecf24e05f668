"""How long until the nearest bound is reached?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .drain import Outlook
from .load import Load


@dataclass(frozen=True, slots=True)
class Fill:
    seconds: float
    bound: str


def nearest_bound(
    load: Load,
    outlook: Outlook,
    *,
    bounds: Mapping[str, float | None],
    held: int,
    held_bytes: int,
    cost_ms: float,
) -> Fill | None:
    """The first bound that a growing (or stalled, but offered to) queue meets; None if it meets none.

    `held` and `held_bytes` count waiting and delayed; cost counts waiting only; age the oldest eligible.
    """
    flow = outlook.flow
    if outlook.state not in ("growing", "stalled") or flow is None or load.arrivals_per_s is None:
        return None
    done_per_s = flow.served * 1000 / load.mean_service_ms if load.mean_service_ms else 0.0
    jobs_per_s = load.arrivals_per_s - done_per_s
    ages_s_per_s = 1.0 if flow.served <= 1e-9 else max(0.0, 1.0 - flow.served / max(flow.arriving, 1e-9))
    per_job_bytes = held_bytes / held if held else 0.0
    per_job_cost = cost_ms / load.depth if load.depth else 0.0
    growth = {
        "count": (held, jobs_per_s),
        "bytes": (held_bytes, jobs_per_s * per_job_bytes),
        "cost_ms": (cost_ms, jobs_per_s * per_job_cost),
        "age_s": (load.age_s, ages_s_per_s if load.depth else 0.0),
    }
    fills = []
    for name, (value, per_s) in growth.items():
        bound = bounds.get(name)
        if bound is None:
            continue
        if value >= bound:
            fills.append(Fill(0.0, name))
        elif per_s > 1e-9:
            fills.append(Fill((bound - value) / per_s, name))
    return min(fills, key=lambda fill: fill.seconds, default=None)

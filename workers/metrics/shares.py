"""Does each class get its share? What was done of all in the last minute, beside what the weights say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .history import History
from .reasons import null_reasons

WINDOW_MS = 60_000
DONE = ("succeeded", "failed", "retried")  # each ends one run of a slot
LEAST = 30  # ends of runs before a share says anything


def completion_shares(history: History) -> dict[str, dict[str, Any]]:
    """For each queue: ``done`` of all runs that ended, ``work`` of their time, ``by_weight`` of it.

    ``by_weight`` is the share of slot time that the weights give among the queues without a strict rank
    while all of them have work; None for a queue with a rank, which is served before them.
    """
    latest = history.latest
    if latest is None:
        return {}
    earliest = next(iter(history.within(WINDOW_MS)))
    over_ms = int(latest["now_ms"]) - int(earliest["now_ms"])
    ended, worked = {}, {}
    for name, queue in latest["queues"].items():
        before = earliest["queues"].get(name)
        ended[name] = _difference(before, queue)
        worked[name] = max(0.0, _spent(queue) - _spent(before)) if before is not None else 0.0
    of, work = sum(ended.values()), sum(worked.values())
    weights = {
        name: float(policy.get("weight") or 1.0)
        for name, policy in latest["policies"].items()
        if policy.get("strict_rank") is None and name in latest["queues"]
    }
    shares = {}
    for name in latest["queues"]:
        known = of >= LEAST
        share: dict[str, Any] = {
            "done": round(ended[name] / of, 4) if known else None,
            "work": round(worked[name] / work, 4) if known and work > 0 else None,
            "by_weight": round(weights[name] / sum(weights.values()), 4) if name in weights else None,
            "of": of,
            "over_ms": over_ms,
        }
        few = f"only {of} runs ended, {LEAST} are needed" if of else "nothing ended in the last 60 s"
        reasons = {
            "done": few,
            "work": few if not known else "no run time measured",
            "by_weight": "has a strict rank",
        }
        share["unknown"] = null_reasons(share, reasons)
        shares[name] = share
    return shares


def _difference(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> int:
    if before is None:
        return 0
    first, last = before["totals"], after["totals"]
    return max(0, sum(int(last.get(name) or 0) - int(first.get(name) or 0) for name in DONE))


def _spent(queue: Mapping[str, Any]) -> float:
    return float(queue.get("service_ms_sum") or 0)

"""Which sentence stands at the top of a frame, and may it change yet?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...forecast.verdict import Verdict, give_verdict
from .inputs import Memory
from .tenants import find_offerers

VERDICT_HOLD_MS = 5_000  # its numbers change at most this often; its wording with the state


def choose_verdict(
    rows: Sequence[Mapping[str, Any]],
    tenants: Sequence[Mapping[str, Any]],
    *,
    mode: Mapping[str, Any],
    redis: Mapping[str, Any],
    refusals: Mapping[str, Mapping[str, float]],
    memory: Memory,
    now_ms: int,
) -> tuple[Verdict, tuple[Any, ...], int]:
    """The verdict, what its wording hangs on, and since when it is said: the last one, while it holds."""
    verdict = give_verdict(
        rows,
        mode=mode["mode"],
        mode_reason=mode["mode_reason"],
        redis_state=str(redis.get("state", "unknown")),
        redis_detail=str(redis.get("detail") or ""),
        offerers=find_offerers(tenants, {row["name"]: row["rates"].get("offered") for row in rows}),
        now_ms=now_ms,
        mode_by="" if mode["mode_automatic"] else str(mode["mode_by"] or ""),
        refusals=refusals,
    )
    key = (
        mode["mode"],
        redis.get("state"),
        verdict.shape,
        # The sentence and the row must not name different directions of one queue.
        *sorted((row["name"], row["state"], _direction(row)) for row in rows),
    )
    last, since_ms = memory.verdict, memory.verdict_at_ms
    if last is not None and memory.verdict_key == key and now_ms - since_ms < VERDICT_HOLD_MS:
        return last, key, since_ms
    return verdict, key, now_ms


def _direction(row: Mapping[str, Any]) -> str:
    """What the sentence may say of where the queue goes; nothing while it is in bounds."""
    return "" if row["state"] in ("in_bounds", "closed") else str(row["drain"]["state"])

"""Which workers are there, and do they live?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.reasons import explain_nulls
from ...store.snapshots import WORKER_LIVE_MS

WORKER_GONE_MS = 60_000
NOT_TOLD = dict.fromkeys(("pid", "started_at_ms"), "not told by the worker")
NOT_STARTED = {"started_at_ms": "reserved, not started"}


def live_slots(snapshot: Mapping[str, Any]) -> float:
    return float(sum(crew["slots"] for crew in snapshot["crews"]))


def worker_rows(snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
    now_ms = int(snapshot["now_ms"])
    rows = []
    for worker in snapshot["workers"]:
        ago_ms = max(0, now_ms - int(worker["beat_at_ms"] or 0))
        row = {
            **worker,
            "beat_ago_ms": ago_ms,
            "state": "live" if ago_ms < WORKER_LIVE_MS else "silent" if ago_ms < WORKER_GONE_MS else "gone",
            "held": [explain_nulls(job, NOT_STARTED) for job in worker.get("held") or ()],
        }
        rows.append(explain_nulls(row, NOT_TOLD))
    return sorted(rows, key=lambda row: str(row["name"]))

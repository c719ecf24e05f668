"""What became of what was replayed: the jobs of one batch, and those of a cause or a task before?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.db.models import QuerySet

from workers.actions.replay_edited import edited_id
from workers.exceptions import StoreUnavailable
from workers.models import QuarantinedJob, ReplayBatch, ReplayItem
from workers.states import TERMINAL
from workers.store import Store

from .reach import reach_gate

MOST_OF_A_BATCH: Final = 500  # the newest: their records are read from Redis at each look
MOST_BEFORE: Final = 50  # the newest earlier replays that tell what to expect


def count_outcomes(store: Store, ids: Sequence[str]) -> dict[str, Any]:
    """How the operations stand: `open` are not ended, `other` ended as neither succeeded nor failed.

    `unknown` are those whose record is no longer kept: of them only a failure is remembered, by quarantine.
    """
    known = store.read_statuses(ids)
    missing = [op_id for op_id in ids if op_id not in known]
    if missing:
        held = QuarantinedJob.objects.filter(op_id__in=missing).values_list("op_id", flat=True)
        known |= dict.fromkeys(held, "failed")
    statuses = [known.get(op_id, "unknown") for op_id in ids]
    counted = {name: statuses.count(name) for name in ("succeeded", "failed", "unknown")}
    still_open = sum(status != "unknown" and status not in TERMINAL for status in statuses)
    other = len(statuses) - still_open - sum(counted.values())
    return {"of": len(statuses), **counted, "open": still_open, "other": other}


def batch_outcomes(batch: ReplayBatch) -> dict[str, Any]:
    """`outcomes` of the newest jobs that it re-admitted; null, with the reason, where they cannot be told."""
    if batch.verb != ReplayBatch.REPLAY:
        return {"outcomes": None, "unknown": {"outcomes": "a discard runs nothing"}}
    items = batch.items.filter(state=ReplayItem.DONE).order_by("-pk")
    ids = list(items.values_list("new_id", flat=True)[:MOST_OF_A_BATCH])
    try:
        with reach_gate() as store:
            return {"outcomes": count_outcomes(store, ids)}
    except StoreUnavailable:
        return {"outcomes": None, "unknown": {"outcomes": "Redis does not answer"}}


def earlier_outcomes(store: Store, jobs: QuerySet[QuarantinedJob]) -> dict[str, Any]:
    """What came of the newest replays of these jobs; one with edited arguments says nothing of the others."""
    replayed = jobs.filter(state=QuarantinedJob.REPLAYED)
    # Two steps: the order is had from an index, and few of the wide rows are read.
    keys = list(replayed.order_by("-quarantined_at_ms", "-id").values_list("pk", flat=True)[:MOST_BEFORE])
    rows = QuarantinedJob.objects.filter(pk__in=keys).values_list("op_id", "replayed_as")
    return count_outcomes(store, [new for old, new in rows if new and new != edited_id(old)])

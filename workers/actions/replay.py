"""Replay held jobs: each once, at a stated rate, through admission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from ..models import QuarantinedJob, ReplayBatch, ReplayItem
from .actor import Actor, NotPossible, Result
from .batch_view import show_batch
from .choose_quarantined import MOST, choose_held
from .journal import require_role, write_entry

VERB: Final = "replay"
EXPIRED: Final = "its replay_until has passed; replay it with override_expired to run it all the same"


def execute(
    actor: Actor,
    *,
    now_ms: int,
    ids: list[str] | None = None,
    wanted: Mapping[str, Any] | None = None,
    rate_per_s: float = 20.0,
    override_expired: bool = False,
    reason: str = "",
) -> Result:
    """Marks the jobs and writes the batch in one transaction; the monitor's replayer does the rest.

    A job leaves `held` here, so a second press, a second browser or a second process finds nothing
    left to replay.
    """
    require_role(actor, "operator", VERB, target="quarantine", reason=reason)
    if not 0 < rate_per_s <= 1000:
        raise NotPossible("invalid", "rate_per_s must be more than 0 and at most 1000.", field="rate_per_s")
    with transaction.atomic():
        held, missed = choose_held(ids=ids, wanted=wanted, tenant=actor.tenant)
        late = [job for job in held if _is_late(job, now_ms) and not override_expired]
        late_ids = {job.pk for job in late}
        go = [job for job in held if job.pk not in late_ids]
        batch = ReplayBatch.objects.create(
            verb=ReplayBatch.REPLAY,
            by=actor.name,
            reason=reason[:2000],
            filter={"ids": len(ids)} if ids is not None else dict(wanted or {}),
            total=len(held) + missed,
            skipped=len(late) + missed,
            rate_per_s=rate_per_s,
            override_expired=override_expired,
            state=ReplayBatch.RUNNING if go else ReplayBatch.DONE,
            finished_at=None if go else timezone.now(),
            note=_note(held, missed, late),
        )
        ReplayItem.objects.bulk_create([ReplayItem(batch=batch, job=job) for job in go], batch_size=500)
        ReplayItem.objects.bulk_create(
            [ReplayItem(batch=batch, job=job, state=ReplayItem.SKIPPED, detail=EXPIRED) for job in late],
            batch_size=500,
        )
        for start in range(0, len(go), 500):
            keys = [job.pk for job in go[start : start + 500]]
            QuarantinedJob.objects.filter(pk__in=keys).update(state=QuarantinedJob.REPLAYING)
        write_entry(
            actor,
            VERB,
            target=f"{len(go)} jobs",
            reason=reason,
            after={
                "batch": str(batch.id),
                "jobs": len(go),
                "skipped": batch.skipped,
                "rate_per_s": rate_per_s,
            },
        )
    return Result(VERB, str(batch.id), show_batch(batch))


def _is_late(job: QuarantinedJob, now_ms: int) -> bool:
    return job.replay_until_at_ms is not None and job.replay_until_at_ms <= now_ms


def _note(held: list[QuarantinedJob], missed: int, late: list[QuarantinedJob]) -> str:
    parts = []
    if len(held) == MOST:
        parts.append(f"A batch takes at most {MOST} jobs; there may be more that match.")
    if missed:
        parts.append(f"{missed} of the jobs asked for are not held (any more).")
    if late:
        parts.append(f"{len(late)} are past their replay_until and need override_expired.")
    return " ".join(parts)

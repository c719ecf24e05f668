"""Discard held jobs: they stay readable until retention ends, and are never replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from ..models import QuarantinedJob, ReplayBatch, ReplayItem
from .actor import Actor, Result
from .batch_view import show_batch
from .choose_quarantined import choose_held
from .journal import require_role, write_entry

VERB: Final = "discard"


def execute(
    actor: Actor, *, ids: list[str] | None = None, wanted: Mapping[str, Any] | None = None, reason: str = ""
) -> Result:
    require_role(actor, "operator", VERB, target="quarantine", reason=reason)
    with transaction.atomic():
        held, missed = choose_held(ids=ids, wanted=wanted, tenant=actor.tenant)
        batch = ReplayBatch.objects.create(
            verb=ReplayBatch.DISCARD,
            by=actor.name,
            reason=reason[:2000],
            filter={"ids": len(ids)} if ids is not None else dict(wanted or {}),
            total=len(held) + missed,
            done=len(held),
            skipped=missed,
            state=ReplayBatch.DONE,
            finished_at=timezone.now(),
            note=f"{missed} of the jobs asked for are not held (any more)." if missed else "",
        )
        ReplayItem.objects.bulk_create(
            [ReplayItem(batch=batch, job=job, state=ReplayItem.DONE) for job in held], batch_size=500
        )
        for start in range(0, len(held), 500):
            keys = [job.pk for job in held[start : start + 500]]
            QuarantinedJob.objects.filter(pk__in=keys).update(state=QuarantinedJob.DISCARDED)
        write_entry(
            actor,
            VERB,
            target=f"{len(held)} jobs",
            reason=reason,
            after={"batch": str(batch.id), "jobs": len(held), "skipped": missed},
        )
    return Result(VERB, str(batch.id), show_batch(batch))

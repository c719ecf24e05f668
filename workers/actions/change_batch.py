"""Pause, resume or stop a replay that runs; what it has not replayed yet is held again."""

from __future__ import annotations

from typing import Final

from django.db import transaction
from django.utils import timezone

from ..models import QuarantinedJob, ReplayBatch, ReplayItem
from .actor import Actor, NotPossible, Result
from .batch_view import show_batch
from .journal import require_role, write_entry

VERB: Final = "change_batch"
STATES: Final = (ReplayBatch.RUNNING, ReplayBatch.PAUSED, ReplayBatch.STOPPED)


def execute(actor: Actor, *, batch_id: str, state: str, reason: str = "") -> Result:
    require_role(actor, "operator", VERB, target=batch_id, reason=reason)
    if state not in STATES:
        raise NotPossible("invalid", f"state must be one of {', '.join(STATES)}.", field="state")
    with transaction.atomic():
        batch = ReplayBatch.objects.select_for_update().filter(pk=batch_id).first()
        if batch is None:
            raise NotPossible("unknown", "There is no such batch.", status=404)
        if batch.state in (ReplayBatch.DONE, ReplayBatch.STOPPED):
            raise NotPossible("settled", f"The batch is {batch.state} already.", field="state", status=409)
        before = batch.state
        batch.state = state
        if state == ReplayBatch.STOPPED:
            left = batch.items.filter(state=ReplayItem.PENDING)
            QuarantinedJob.objects.filter(
                pk__in=left.values("job_id"), state=QuarantinedJob.REPLAYING
            ).update(state=QuarantinedJob.HELD)
            batch.skipped += left.update(state=ReplayItem.SKIPPED, detail=f"stopped by {actor.name}")
            batch.finished_at = timezone.now()
        batch.save()
        write_entry(
            actor, VERB, target=batch_id, reason=reason, before={"state": before}, after={"state": state}
        )
    return Result(VERB, batch_id, show_batch(batch))

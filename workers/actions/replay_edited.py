"""Replay one held job with other arguments, as an operator wrote them: once, and with its lineage."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from django.db import transaction

from ..models import QuarantinedJob
from ..store import Store, Verdict
from .actor import Actor, NotPossible, Result
from .journal import require_role, write_entry

VERB: Final = "replay"
_EDITS: Final = uuid.UUID("0f7f2a52-6f0f-4a0e-9b43-6a1d3bb1c5d1")


def edited_id(op_id: str) -> str:
    """The id of the operation that an edit makes: pressed twice, it is the same one."""
    return str(uuid.uuid5(_EDITS, op_id))


def execute(
    actor: Actor,
    *,
    store: Store,
    op_id: str,
    submit: Callable[[QuarantinedJob], Verdict],
    reason: str = "",
) -> Result:
    """Offers it by `submit` while the job is held, and takes it out of quarantine once it is accepted.

    A batch that would replay the same job waits for the lock, and finds it replayed.
    """
    require_role(actor, "operator", VERB, target=op_id, reason=reason)
    with transaction.atomic():
        held = QuarantinedJob.objects.select_for_update().filter(op_id=op_id).first()
        if held is None or (actor.tenant is not None and held.tenant != actor.tenant):
            raise NotPossible("unknown", "There is no such job in quarantine.", field="replay_of", status=404)
        if held.state != QuarantinedJob.HELD:
            raise NotPossible("settled", f"This job is {held.state} already.", field="replay_of", status=409)
        verdict = submit(held)
        told: dict[str, Any] = {"verdict": verdict}
        if not verdict.accepted or verdict.status == "shed":
            return Result(VERB, op_id, told)
        QuarantinedJob.objects.filter(pk=held.pk).update(
            state=QuarantinedJob.REPLAYED, replayed_as=verdict.id
        )
        write_entry(
            actor, VERB, target=op_id, reason=reason, after={"operation_id": verdict.id, "edited": True}
        )
    store.note_replayed(op_id, verdict.id)
    return Result(VERB, op_id, told)

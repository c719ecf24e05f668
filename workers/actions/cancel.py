"""Cancel an operation: it never starts, or is asked to stop."""

from __future__ import annotations

from typing import Final

from ..store import Store
from .actor import Actor, NotPossible, Result
from .journal import REFUSED, write_entry

VERB: Final = "cancel"


def execute(actor: Actor, *, store: Store, operation_id: str, reason: str = "") -> Result:
    """Whoever may submit for a tenant may cancel its operations; the door has checked that right."""
    reply = store.cancel(operation_id, by=actor.name, tenant=actor.tenant)
    if reply.result == "unknown":
        raise NotPossible("unknown", "There is no such operation.", status=404)
    if reply.result == "settled":
        write_entry(
            actor, VERB, target=operation_id, reason=reason, after={"status": reply.status}, outcome=REFUSED
        )
        raise NotPossible("settled", f"The operation has {reply.status} already.", status=409)
    if reply.changed:
        write_entry(actor, VERB, target=operation_id, reason=reason, after={"result": reply.result})
    return Result(
        VERB, operation_id, {"operation_id": operation_id, "result": reply.result, "status": reply.status}
    )

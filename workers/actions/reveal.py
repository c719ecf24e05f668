"""Reveal what is redacted of one operation: to whom its class allows it, for a reason, written down first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..models import QuarantinedJob
from ..privacy.classes import DEFAULT_CLASS, handling_of
from ..privacy.errors import open_error
from ..privacy.seal import unseal
from ..quarantine.arguments import read_arguments
from ..store import Store
from .actor import Actor, NotPossible, Result
from .journal import require_role, write_entry

VERB: Final = "reveal"
NOT_KEPT: Final = "not kept: a payload goes when its job has ended, but for those in quarantine"


def execute(
    actor: Actor,
    *,
    store: Store,
    operation_id: str,
    reason: str,
    read_result: Callable[[str], tuple[Any, str]],
) -> Result:
    """Arguments, result, error and the stored bytes, as far as they are kept; null with its reason else."""
    operation = store.read_operation(operation_id)
    job = QuarantinedJob.objects.filter(op_id=operation_id).first()
    known = operation or job
    if known is None or actor.tenant not in (None, known.tenant):
        raise NotPossible("unknown", "There is no such operation, or it is no longer kept.", status=404)
    payload_class = known.payload_class or DEFAULT_CLASS
    require_role(actor, handling_of(payload_class).revealed_to, VERB, target=operation_id, reason=reason)
    if not reason.strip():
        raise NotPossible("invalid", "Say why: the reason is kept in the journal.", field="reason")
    about = {"task": known.task, "queue": known.queue, "tenant": known.tenant, "payload_class": payload_class}
    write_entry(actor, VERB, target=operation_id, reason=reason, after=about)

    payload = (store.read_payload(operation_id) if operation else None) or (
        bytes(job.payload) if job else b""
    )
    unknown: dict[str, str] = {}
    args = kwargs = None
    try:
        payload = unseal(payload, operation_id)
    except ValueError as fault:
        payload, unknown["arguments"] = b"", str(fault)
    if "arguments" in unknown:
        pass
    elif not payload:
        unknown["arguments"] = (job.payload_gone if job else "") or NOT_KEPT
    elif (found := read_arguments(payload)) is None:
        unknown["arguments"] = "the stored bytes are no message that can be read"
    else:
        args, kwargs = found
    result = None
    if operation is None or operation.status != "succeeded":
        unknown["result"] = "none"
    else:
        result, why = read_result(operation_id)
        if why:
            unknown["result"] = why
    error = None
    try:
        if job is not None:
            message, trace = job.read_words()
            error = {"type": job.error_type, "message": message, "traceback": trace}
        elif operation is not None and operation.error:
            error = open_error(operation.error, operation_id)
    except ValueError as fault:
        unknown["error"] = str(fault)
    data = {
        "operation_id": operation_id,
        **about,
        "args": args,
        "kwargs": kwargs,
        "result": result,
        "error": error,
        "payload": payload,
        "unknown": unknown,
    }
    return Result(VERB, operation_id, data)

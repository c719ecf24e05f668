"""What became of an operation? Its record, its result and what quarantine still knows."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from workers.models import QuarantinedJob
from workers.privacy.classes import handling_of
from workers.privacy.errors import tell_error
from workers.privacy.redact import REDACTED, scrub_value
from workers.privacy.seal import MissingKey, unseal
from workers.quarantine.arguments import describe_arguments
from workers.store import Operation, Store
from workers.transport.results import RESULT

from ..access.desk import DatabaseAway, desk
from .engine import celery_app

log = logging.getLogger(__name__)

LARGEST_RESULT: Final = 256 * 1024  # bytes of JSON that are shown; above it only the size is
LEFT_OUT: Final = "sluicegate_left_out"  # what the gate's result backend stores in place of a large result
LONGEST_TEXT: Final = 20_000  # characters of a message or traceback
TIMES: Final = (
    "offered_at_ms",
    "accepted_at_ms",
    "enqueued_at_ms",
    "started_at_ms",
    "committed_at_ms",
    "reported_at_ms",
)


def find_operation(
    store: Store, operation_id: str, *, submits_as: str | None = None
) -> tuple[dict[str, Any], str] | None:
    """What is shown and the tenant it belongs to; None if nothing is known.

    ``submits_as`` is the tenant in whose name the reader may submit: what a program sent under its own key
    comes back to it where the class of the payload does not ask for more.
    """
    operation = store.read_operation(operation_id)
    if operation is not None:
        shown = show_operation(operation, own=operation.tenant == submits_as)
        if shown["phase"] == "waiting" and store.is_suspended(operation.tenant):
            shown["phase"] = "held"
        payload = store.read_payload(operation_id) if operation.status in ("pending", "running") else None
        if operation.quarantined:
            shown.update(_as_quarantine_knows(operation_id, operation.replayed_as))
        if payload:
            shown["args_text"] = describe_arguments(payload, operation.payload_class, operation.id)
        return shown, operation.tenant
    held = desk.ask(lambda: QuarantinedJob.objects.defer("payload").filter(op_id=operation_id).first())
    return (show_held(held), held.tenant) if held else None


def _as_quarantine_knows(operation_id: str, replayed_as: str | None) -> dict[str, Any]:
    """Where it stands in quarantine, and its arguments as the recorder wrote them, redacted.

    Redis's record goes on saying that the job came to quarantine after it has left it. While the database is
    away that record is all there is.
    """
    try:
        rows = QuarantinedJob.objects.filter(op_id=operation_id)
        row = desk.ask(lambda: rows.values_list("args_text", "payload_gone", "state").first())
    except DatabaseAway:
        why = "the database has not answered"
        if replayed_as:
            return {**_standing(QuarantinedJob.REPLAYED), "unknown": {"args_text": why}}
        return {"quarantine": None, "unknown": {"args_text": why, "quarantine": why}}
    if row is None:
        return {**_standing(QuarantinedJob.HELD), "unknown": {"args_text": "not recorded yet"}}
    args_text, gone, state = row
    unknown = {} if args_text else {"args_text": gone or "not kept"}
    return {**_standing(state), "args_text": args_text or None, "unknown": unknown}


def _standing(state: str) -> dict[str, Any]:
    """`quarantined` is whether it is held there now; what was replayed, discarded or deleted is not."""
    return {"quarantined": state in (QuarantinedJob.HELD, QuarantinedJob.REPLAYING), "quarantine": state}


def show_operation(operation: Operation, *, own: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operation_id": operation.id,
        "task": operation.task,
        "queue": operation.queue,
        "tenant": operation.tenant,
        "status": operation.status,
        "phase": operation.phase,
        "due_at_ms": operation.due_at_ms,
        "deadline_at_ms": operation.deadline_at_ms,
        "attempts": operation.attempts,
        "deliveries": operation.deliveries,
        "lost_count": operation.lost_count,
        "times": {name: operation.times.get(name) for name in TIMES},
        "worker": operation.worker,
        "bytes": operation.bytes,
        "cost_ms": operation.cost_ms,
        "tags": list(operation.tags),
        "traceparent": operation.trace,
        "quarantined": operation.quarantined,
        "quarantine": None,
        "cancel_requested": bool(operation.cancel_requested_by),
        "cancelled_by": operation.cancel_requested_by,
        "deletion": operation.deletion,
        "replay_of": operation.replay_of,
        "replayed_as": operation.replayed_as,
        "replay_until_at_ms": operation.replay_until_at_ms,
        "payload_class": operation.payload_class,
        "revealed_to": handling_of(operation.payload_class).revealed_to,
        "args_text": None,
        "superseded_by": operation.superseded_by,
        "degraded_from": operation.degraded_from,
        "refused_by": operation.refused_by,
        "ordering_key": operation.ordering_key,
        "downstream": operation.downstream,
        "held_back_by": operation.held_back_by,
        "result": None,
        "error": _capped_error(tell_error(operation.error, operation.payload_class, operation.id)),
        "unknown": {"args_text": "not kept after the job has ended"},
    }
    if operation.status in ("pending", "running"):
        shown["unknown"] = {}
    if operation.status == "succeeded":
        shown["result"], why = show_result(operation, own=own)
        if why:
            shown["unknown"]["result"] = why
    return shown


def show_result(operation: Operation, *, own: bool) -> tuple[Any, str]:
    """The result as it may be read unasked, or the reason why it is not."""
    handling = handling_of(operation.payload_class)
    if handling.shows == "values":
        result, why = read_result(operation.id)
        return (result if own else scrub_value(result)), why
    if own and handling.error_text:
        return read_result(operation.id)
    return None, f"{REDACTED}: {operation.payload_class}; an {handling.revealed_to} may reveal it"


def show_held(job: QuarantinedJob) -> dict[str, Any]:
    """An operation whose record Redis no longer keeps, as quarantine remembers it."""
    return {
        "operation_id": job.op_id,
        "task": job.task,
        "queue": job.queue,
        "tenant": job.tenant,
        "status": "failed",
        "phase": None,
        "due_at_ms": None,
        "deadline_at_ms": None,
        "attempts": job.attempts,
        "deliveries": job.deliveries,
        "lost_count": None,
        "times": {name: job.times.get(name) for name in TIMES},
        "worker": job.worker or None,
        "bytes": job.bytes,
        "cost_ms": None,
        "tags": job.tags,
        "traceparent": None,
        **_standing(job.state),
        "cancel_requested": False,
        "cancelled_by": None,
        "deletion": job.deletion,
        "replay_of": job.replay_of or None,
        "replayed_as": job.replayed_as or None,
        "replay_until_at_ms": job.replay_until_at_ms,
        "payload_class": job.payload_class,
        "revealed_to": handling_of(job.payload_class).revealed_to,
        "args_text": job.args_text or None,
        "superseded_by": None,
        "degraded_from": None,
        "refused_by": None,
        "ordering_key": None,
        "result": None,
        "error": job.tell_error(),
        "unknown": {
            "lost_count": "the operation's record has expired",
            "cost_ms": "the operation's record has expired",
            **({} if job.args_text else {"args_text": job.payload_gone or "not kept"}),
        },
    }


def read_result(operation_id: str) -> tuple[Any, str]:
    """The result, or the reason why it is not shown. Never more than LARGEST_RESULT bytes."""
    backend = celery_app().backend
    try:
        key = backend.get_key_for_task(operation_id)
        size = backend.client.strlen(key)
        if size > LARGEST_RESULT:
            return None, f"too large to show: {size} bytes"
        raw = backend.get(key) if size else None
    except Exception as fault:  # noqa: BLE001  whatever the backend is, its fault must not hide the operation
        log.warning("result of %s: %s", operation_id, fault)
        return None, "the result backend cannot be read"
    if raw is None:
        return None, "not kept: it has expired, or the task ignores its result"
    not_numbers: list[str] = []
    try:
        # JSON as Python writes it may hold NaN and halves of characters; an answer must not.
        stored = json.loads(unseal(raw, RESULT), parse_constant=not_numbers.append)
        result = _whole_characters(stored.get("result"))
    except MissingKey as fault:
        return None, str(fault)
    except (ValueError, AttributeError, RecursionError):
        return None, "it is not JSON"
    if isinstance(result, dict) and LEFT_OUT in result:
        return None, f"not kept: {result[LEFT_OUT]}"
    if not_numbers:
        return result, f"it holds {', '.join(sorted(set(not_numbers)))}, shown as null"
    return result, ""


def _whole_characters(value: Any) -> Any:
    """The same value, with a mark in place of each half of a character."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-8", "replace"))
    return value


def _capped_error(error: dict[str, str] | None) -> dict[str, str] | None:
    if not error:
        return None
    return {name: str(value)[:LONGEST_TEXT] for name, value in error.items()}

"""Search what is held, look at one, replay or discard many."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest
from ninja import Router

from workers.actions import change_batch, discard, replay
from workers.actions.batch_view import show_batch
from workers.actions.choose_quarantined import filter_jobs
from workers.actions.gate import redis_now_ms
from workers.models import QuarantinedJob, ReplayBatch, ReplayItem
from workers.privacy.classes import handling_of
from workers.privacy.errors import WITHHELD
from workers.privacy.redact import REDACTED, redact_error

from ..access.caller import Caller
from ..access.door import Scope
from ..queries.engine import open_gate
from ..queries.held import EVERY_STATE, MOST_FOUND, search_through, show_causes, sum_up
from ..queries.known_queues import has_policy, known_queues
from ..queries.reach import reach_gate
from ..queries.replays import batch_outcomes, earlier_outcomes
from .paging import MOST, page_by_time, page_document, page_of
from .problems import Problem, unknown_queue
from .schemas import BatchChange, Choice, ProblemDocument, ReplayChoice

router = Router(tags=["quarantine"])
FAULTS = dict.fromkeys((401, 403, 404, 409, 422, 503), ProblemDocument)
LONGEST_LINE = 500


@router.get("/quarantine", auth=Scope("read"), response={200: dict, **FAULTS})
def search(
    request: HttpRequest,
    state: str = QuarantinedJob.HELD,
    queue: str | None = None,
    task: str | None = None,
    tenant: str | None = None,
    payload_class: str | None = None,
    reason: str | None = None,
    error_type: str | None = None,
    fingerprint: str | None = None,
    search: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Newest first. `state` is held by default; `state=all` shows those replayed and discarded too.

    A `search` looks in task, error type, arguments as they are shown, the beginning of the id, and the error
    texts of public and internal jobs; `unsearched` is of how many others, under the same filters, the error
    text was not looked at. It finds the newest 10,000; where there are more, `capped` is true and
    the sums are of those.
    """
    wanted = {
        "state": None if state == "all" else state,
        "queue": queue,
        "task": task,
        "tenant": tenant,
        "payload_class": payload_class,
        "reason": reason,
        "error_type": error_type,
        "fingerprint": fingerprint,
        "search": search,
        "since_ms": since_ms,
        "until_ms": until_ms,
    }
    jobs = _seen_by(request.auth, filter_jobs(wanted, within=""))
    states = EVERY_STATE if state == "all" else (state,)
    jobs = jobs.filter(state__in=states)  # what is summed stands in indexes by state
    more: dict[str, Any] = {}
    if search:
        held = search_through(jobs, most=MOST_FOUND)
        others = _seen_by(request.auth, filter_jobs({**wanted, "search": None}, within=""))
        more["unsearched"] = others.filter(payload_class__in=WITHHELD, state__in=states).order_by().count()
        keys = [key for key in held.keys or () if before is None or key < before]
        jobs = QuarantinedJob.objects.filter(pk__in=keys[: MOST + 1])
    else:
        narrowed = bool(queue or tenant or payload_class or request.auth.tenant is not None)
        held = sum_up(jobs, narrowed=narrowed)
    if queue and not held.count and not _is_known(request.auth, queue):
        raise unknown_queue(queue, known_queues(), status=422)
    page = page_of(jobs.defer("payload", "traceback", "words_sealed"), before=before, limit=limit)
    return page_document(
        "jobs",
        page,
        show_line,
        count=held.count,
        **more,
        **({"capped": True} if held.capped else {}),
        bytes=held.bytes,
        oldest_at_ms=held.oldest_at_ms,
        causes=show_causes(held.causes),
    )


@router.post("/quarantine/replay", auth=Scope("operate"), response={200: dict, **FAULTS})
def replay_jobs(request: HttpRequest, choice: ReplayChoice) -> dict[str, Any]:
    result = replay.execute(
        request.auth.actor,
        now_ms=redis_now_ms(open_gate()),
        ids=choice.ids,
        wanted=choice.filter,
        rate_per_s=choice.rate_per_s,
        override_expired=choice.override_expired,
        reason=choice.reason,
    )
    return result.data


@router.post("/quarantine/discard", auth=Scope("operate"), response={200: dict, **FAULTS})
def discard_jobs(request: HttpRequest, choice: Choice) -> dict[str, Any]:
    return discard.execute(
        request.auth.actor, ids=choice.ids, wanted=choice.filter, reason=choice.reason
    ).data


@router.get("/quarantine/replays", auth=Scope("read"), response={200: dict, **FAULTS})
def earlier_replays(
    request: HttpRequest, fingerprint: str | None = None, task: str | None = None
) -> dict[str, Any]:
    """How the newest 50 replays of a cause, and of a task, came out: what the next ones may be judged by.

    Each is null where it was not asked for; `unknown` are replays whose record is gone.
    """
    asked = {"cause": {"fingerprint": fingerprint}, "task": {"task": task}}
    with reach_gate() as store:
        return {
            name: earlier_outcomes(store, _seen_by(request.auth, QuarantinedJob.objects.filter(**wanted)))
            if all(wanted.values())
            else None
            for name, wanted in asked.items()
        }


@router.get("/quarantine/{operation_id}", auth=Scope("read"), response={200: dict, **FAULTS})
def read_held(request: HttpRequest, operation_id: str) -> dict[str, Any]:
    job = _seen_by(request.auth, QuarantinedJob.objects.filter(op_id=operation_id)).first()
    if job is None:
        raise Problem(404, "unknown", "There is no such job in quarantine.")
    items = ReplayItem.objects.select_related("batch").filter(job=job).order_by("-pk")[:20]
    return {
        **show_line(job),
        **_told(job),
        "args_text": job.args_text,
        "times": job.times,
        "payload": {"bytes": len(job.payload), "gone": job.payload_gone or None},
        "history": [
            {
                "batch": str(item.batch_id),
                "verb": item.batch.verb,
                "by": item.batch.by,
                "state": item.state,
                "new_id": item.new_id or None,
                "detail": item.detail,
                "at_ms": int(item.batch.created_at.timestamp() * 1000),
            }
            for item in items
        ],
    }


@router.get("/batches", auth=Scope("read"), response={200: dict, **FAULTS})
def list_batches(request: HttpRequest, before: int | None = None, limit: int | None = None) -> dict[str, Any]:
    """Newest first."""
    page = page_by_time(ReplayBatch.objects.all(), "created_at", before=before, limit=limit)
    return page_document("batches", page, show_batch)


@router.get("/batches/{batch_id}", auth=Scope("read"), response={200: dict, **FAULTS})
def read_batch(
    request: HttpRequest, batch_id: uuid.UUID, before: int | None = None, limit: int | None = None
) -> dict[str, Any]:
    """`done` are re-admitted; how those ended since, as far as it is known, is in `outcomes`.

    `items` are a page, the newest first; `before=` its `next_before` gives the next.
    """
    batch = ReplayBatch.objects.filter(pk=batch_id).first()
    if batch is None:
        raise Problem(404, "unknown", "There is no such batch.")
    items = batch.items.select_related("job").defer("job__payload", "job__traceback", "job__words_sealed")
    if request.auth.tenant is not None:
        items = items.filter(job__tenant=request.auth.tenant)
    page = page_of(items, before=before, limit=limit or MOST)
    return {**show_batch(batch), **batch_outcomes(batch), **page_document("items", page, _show_item)}


@router.put("/batches/{batch_id}", auth=Scope("operate"), response={200: dict, **FAULTS})
def write_batch(request: HttpRequest, batch_id: uuid.UUID, change: BatchChange) -> dict[str, Any]:
    return change_batch.execute(
        request.auth.actor, batch_id=str(batch_id), state=change.state, reason=change.reason
    ).data


def show_line(job: QuarantinedJob) -> dict[str, Any]:
    return {
        "id": job.op_id,
        "operation_id": job.op_id,
        "task": job.task,
        "queue": job.queue,
        "tenant": job.tenant,
        "reason": job.reason,
        "error_type": job.error_type,
        "payload_class": job.payload_class,
        "revealed_to": handling_of(job.payload_class).revealed_to,
        "tags": job.tags,
        "message": _told_line(job),
        "args_text": job.args_text[:LONGEST_LINE],
        "attempts": job.attempts,
        "deliveries": job.deliveries,
        "quarantined_at_ms": job.quarantined_at_ms,
        "fingerprint": job.fingerprint,
        "replay_of": job.replay_of or None,
        "replayed_as": job.replayed_as or None,
        "replay_until_at_ms": job.replay_until_at_ms,
        "worker": job.worker or None,
        "epoch": job.epoch,
        "state": job.state,
        "bytes": job.bytes,
    }


def _show_item(item: ReplayItem) -> dict[str, Any]:
    return {
        "operation_id": item.job.op_id,
        "task": item.job.task,
        "new_id": item.new_id or None,
        "state": item.state,
        "detail": item.detail,
    }


def _told(job: QuarantinedJob) -> dict[str, str]:
    """Message and traceback, as the job's class lets them be read unasked."""
    told = job.tell_error()
    return {"message": told["message"], "traceback": told["traceback"]}


def _told_line(job: QuarantinedJob) -> str:
    if job.words_key_id:
        return REDACTED  # not opened for a line of a list
    told = redact_error({"message": job.message[:LONGEST_LINE]}, job.payload_class) or {}
    return told["message"]


def _is_known(caller: Caller, queue: str) -> bool:
    """What is held outlives a queue's policy; where there is neither, nothing held would be no answer."""
    return has_policy(queue) or _seen_by(caller, QuarantinedJob.objects.filter(queue=queue)).exists()


def _seen_by(caller: Caller, jobs: Any) -> Any:
    return jobs if caller.tenant is None else jobs.filter(tenant=caller.tenant)

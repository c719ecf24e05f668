"""What does a submit ask for, and may this caller ask for it?"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from kombu.exceptions import EncodeError

from workers.actions.actor import NotPossible
from workers.actions.moments import read_moment
from workers.actions.naming import find_nearest
from workers.admission.offers import build_offer
from workers.exceptions import OfferError
from workers.states import DEFAULT_QUEUE
from workers.store import Offer

from ..access.caller import Caller
from ..queries.engine import celery_app, known_tasks
from ..queries.known_queues import has_policy, known_queues
from .problems import Problem, unknown_queue
from .schemas import Job

TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
LONGEST_IDEMPOTENCY_KEY: Final = 255
LONGEST_TICKET: Final = 100


@dataclass(frozen=True, slots=True)
class Manner:
    """What the headers add to a body."""

    idempotency_key: str | None = None
    traceparent: str | None = None
    waited_ms: int = 0
    ticket: str | None = None


def read_manner(
    idempotency_key: str | None,
    traceparent: str | None,
    waited_ms: str | None = None,
    ticket: str | None = None,
) -> Manner:
    if idempotency_key is not None and not 0 < len(idempotency_key) <= LONGEST_IDEMPOTENCY_KEY:
        raise Problem(
            400,
            "invalid",
            f"Idempotency-Key must have 1 to {LONGEST_IDEMPOTENCY_KEY} characters.",
            field="Idempotency-Key",
        )
    # A traceparent that cannot be read is left out, as the W3C text asks.
    trace = traceparent if traceparent and TRACEPARENT.fullmatch(traceparent) else None
    return Manner(idempotency_key, trace, int(waited_ms or 0), ticket[:LONGEST_TICKET] if ticket else None)


def make_offer(
    caller: Caller, job: Job, manner: Manner, *, op_id: str | None = None, tenant: str | None = None
) -> Offer:
    """The offer that a submit makes, under a new id and the caller's tenant unless others are named."""
    queue = check_place(caller, job)
    check_arguments(job)
    if job.deadline_s is not None and job.countdown_s is not None and job.deadline_s <= job.countdown_s:
        raise Problem(
            422,
            "invalid",
            f"deadline_s counts from now too, and is over before the countdown of {job.countdown_s:g} s is: "
            "give a longer one.",
            field="deadline_s",
        )
    moment = _replay_until(job)
    try:
        offer = build_offer(
            celery_app(),
            job.task,
            job.args,
            job.kwargs,
            queue=queue,
            tenant=tenant or caller.submits_as,
            op_id=op_id,
            countdown_s=job.countdown_s or None,
            deadline_ms=None
            if job.deadline_s is None
            else max(0 if manner.waited_ms else 1, round(job.deadline_s * 1000) - manner.waited_ms),
            offered_ago_ms=manner.waited_ms,
            cost_ms=job.cost_ms,
            ordering_key=job.ordering_key,
            coalesce_key=job.coalesce_key,
            source_sequence=job.source_sequence,
            replay_until_at_ms=moment,
            idempotency_key=manner.idempotency_key,
            idempotency_hash=digest_of(job) if manner.idempotency_key else None,
            tags=job.tags,
            payload_class=job.payload_class,
            trace=manner.traceparent,
            headers={"traceparent": manner.traceparent} if manner.traceparent else None,
        )
        return replace(
            offer,
            api_key=None if caller.key_id is None else str(caller.key_id),
            ticket=manner.ticket or job.ticket,
        )
    except OfferError as fault:
        raise Problem(422, "invalid", str(fault), field=fault.field) from fault
    except EncodeError as fault:
        raise Problem(
            422, "invalid", f"The arguments cannot be encoded: {fault}"[:300], field="args"
        ) from fault


def check_place(caller: Caller, job: Job) -> str:
    """The queue that the job goes to, if the caller may send this task there."""
    app = celery_app()
    if job.task not in app.tasks or job.task.startswith("celery."):
        raise _unknown_task(caller, job.task)
    if not caller.may_submit_task(job.task):
        raise Problem(403, "forbidden", f"This key may not submit {job.task!r}.", field="task")
    queue = job.queue or _own_queue(job)
    if not has_policy(queue):
        raise unknown_queue(
            queue, [name for name in known_queues() if caller.may_submit_to(name)], status=422
        )
    if not caller.may_submit_to(queue):
        raise Problem(403, "forbidden", f"This key may not submit to {queue!r}.", field="queue", queue=queue)
    return queue


def _unknown_task(caller: Caller, task: str) -> Problem:
    near = find_nearest(task, [name for name in known_tasks() if caller.may_submit_task(name)], most=1)
    meant = f" (nearest: {near[0]})" if near else ""
    return Problem(
        422,
        "unknown_task",
        f"There is no task {task!r} here{meant}. GET /api/v1/tasks lists those that are known here; "
        "SLUICEGATE_IMPORTS brings in modules of your own.",
        field="task",
    )


def check_arguments(job: Job) -> None:
    """A call that the task's signature cannot take would only fail later, in a worker."""
    task = celery_app().tasks[job.task]
    if not getattr(task, "typing", False):
        return
    try:
        task.__header__(*job.args, **job.kwargs)
    except TypeError as fault:
        field = "kwargs" if "keyword" in str(fault) else "args"
        raise Problem(422, "invalid", f"{job.task}: {fault}"[:300], field=field) from fault


def digest_of(job: Job) -> str:
    """Equal for bodies that say the same, in whatever order their fields stand."""
    text = json.dumps(job.dict(exclude={"ticket"}), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _own_queue(job: Job) -> str:
    app = celery_app()
    named = getattr(app.tasks[job.task], "queue", None)
    if not named:
        route: dict[str, Any] = app.amqp.router.route({}, job.task, job.args, job.kwargs)
        named = getattr(route.get("queue"), "name", route.get("queue"))
    return str(named) if named and has_policy(str(named)) else DEFAULT_QUEUE


def _replay_until(job: Job) -> int | None:
    try:
        return read_moment(job.replay_until, field="replay_until")
    except NotPossible as fault:
        raise Problem(422, "invalid", fault.detail, field="replay_until") from fault

"""Submit work, ask what became of it, cancel it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Header, Router
from pydantic import ValidationError as PydanticError

from workers.actions import cancel, replay_edited, reveal
from workers.actions.note_loss import newest_loss
from workers.exceptions import StoreUnavailable
from workers.models import QuarantinedJob
from workers.store import Store, Verdict

from ..access.caller import Caller
from ..access.desk import DatabaseAway, desk
from ..access.door import Scope
from ..access.patience import WAITED_HEADER
from ..access.threads import REPEATED
from ..queries.durability import durability_of
from ..queries.engine import known_tasks
from ..queries.operations import find_operation, read_result
from ..queries.payload import show_payload
from ..queries.reach import reach_gate
from .admission import TICKET_HEADER, admit, answer_of, rate_fields
from .problems import Problem
from .reading import field_of, refuse_header, say_fault
from .schemas import BODY, Accepted, Job, Jobs, ManyJobs, ProblemDocument, WhyNeeded
from .submission import Manner, make_offer, read_manner

router = Router(tags=["jobs"])

REFUSALS = dict.fromkeys((400, 401, 403, 409, 413, 422, 429, 503), ProblemDocument)


@router.post("/jobs", auth=Scope("submit"), response={202: Accepted, **REFUSALS}, summary="Submit a job")
def submit(
    request: HttpRequest,
    job: Job,
    idempotency_key: str | None = Header(None, alias="Idempotency-Key"),
    traceparent: str | None = Header(None, alias="traceparent"),
    prefer: str | None = Header(None, alias="Prefer"),
    ticket: str | None = Header(None, alias=TICKET_HEADER),
) -> HttpResponse:
    """The body is JSON, whatever its Content-Type says.

    `Prefer: wait=N` lets it wait for room where the queue's on_full is block: N s and block_s at most.

    A queue with a waiting room answers 429 with a ticket: send it along when you come back.
    """
    if "idempotency-key" in request.META.get(REPEATED, ()):
        raise Problem(
            400, "invalid", "Idempotency-Key stands twice in this request: send one.", field="Idempotency-Key"
        )
    manner = read_manner(idempotency_key, traceparent, request.headers.get(WAITED_HEADER), ticket)
    with reach_gate() as store:
        if job.replay_of is None:
            verdict = admit(store, [make_offer(request.auth, job, manner)])[0]
        else:
            verdict = _replay_edited(store, request.auth, job, manner)
        answer = answer_of(verdict, durability=durability_of(store))
        if verdict.duplicate_of:
            _tell_first_answer(store, answer)
    response = _json(answer, 202)
    response["Location"] = answer["status_url"]
    for name, value in rate_fields(verdict.rates).items():
        response[name] = value
    if verdict.duplicate_of:
        response["Idempotency-Replayed"] = "true"
    return response


@router.post("/jobs/bulk", auth=Scope("submit"), response={200: dict, **REFUSALS}, summary="Submit many jobs")
def submit_bulk(request: HttpRequest, jobs: ManyJobs = BODY) -> HttpResponse:
    """A verdict each, in order; one round trip. `whole` accepts all or none.

    Idempotency-Key and Sluicegate-Ticket go with one job, so neither header is taken here: a job that may be
    sent again goes to `POST /jobs` with a key of its own, and an item may carry its `ticket`.
    """
    refuse_header(
        request,
        "Idempotency-Key",
        "one key cannot stand for many jobs, each with a verdict of its own: submit those that may be sent "
        "again to /api/v1/jobs, each with its own key",
    )
    refuse_header(request, TICKET_HEADER, "a ticket lets one job in: give it as `ticket` in its item")
    whole = isinstance(jobs, Jobs) and jobs.whole
    rows = jobs.jobs if isinstance(jobs, Jobs) else jobs
    if not 1 <= len(rows) <= 1000:
        raise Problem(422, "invalid", "Give 1 to 1000 jobs.", field="jobs")
    verdicts: list[dict[str, Any]] = [{} for _ in rows]
    offers, places = [], []
    for place, row in enumerate(rows):
        try:
            offers.append(make_offer(request.auth, _read_job(row), Manner()))
            places.append(place)
        except Problem as problem:
            verdicts[place] = problem.document()
    if whole and len(offers) < len(rows):
        first = next(v for v in verdicts if v)
        raise Problem(
            422,
            "invalid",
            f"One of the jobs does not fit: {first['detail']}",
            field="jobs",
            extra={"verdicts": verdicts},
        )
    if offers:
        with reach_gate() as store:
            found, durability = admit(store, offers, whole=whole), durability_of(store)
        for place, verdict in zip(places, found, strict=True):
            verdicts[place] = _tell_verdict(verdict, durability)
    # What was dropped without an error is refused all the same.
    taken = [verdict["status"] not in range(400, 600) and verdict["status"] != "shed" for verdict in verdicts]
    accepted = sum(taken)
    waits = [verdict["retry_after_s"] for verdict in verdicts if verdict.get("retry_after_s")]
    response = _json({"accepted": accepted, "refused": len(rows) - accepted, "verdicts": verdicts}, 200)
    if waits:
        response["Retry-After"] = str(max(waits))
    return response


@router.get("/tasks", auth=Scope("submit", "read"), summary="Tasks that may be submitted")
def list_tasks(request: HttpRequest) -> dict[str, Any]:
    return {"tasks": [name for name in known_tasks() if request.auth.may_submit_task(name)]}


@router.get(
    "/jobs/{operation_id}",
    auth=Scope("submit", "read"),
    response={200: dict, 404: ProblemDocument, 503: ProblemDocument},
    summary="What became of a job",
)
def read_job(request: HttpRequest, operation_id: str) -> HttpResponse:
    with reach_gate() as store:
        found = find_operation(store, operation_id, submits_as=_own_tenant(request.auth))
    if found is None or not request.auth.sees(found[1]):
        raise _unknown()
    return _json(found[0], 200)


@router.delete(
    "/jobs/{operation_id}",
    auth=Scope("submit", "operate"),
    response={200: dict, 202: dict, 404: ProblemDocument, 409: ProblemDocument, 503: ProblemDocument},
    summary="Cancel a job",
)
def cancel_job(request: HttpRequest, operation_id: str) -> HttpResponse:
    with reach_gate() as store:
        result = cancel.execute(request.auth.actor, store=store, operation_id=operation_id)
    return _json(result.data, 200 if result.data["result"] == "cancelled" else 202)


@router.post(
    "/jobs/{operation_id}/reveal",
    auth=Scope("operate"),
    response={
        200: dict,
        403: ProblemDocument,
        404: ProblemDocument,
        422: ProblemDocument,
        503: ProblemDocument,
    },
    summary="Show what is redacted of a job",
)
def reveal_job(request: HttpRequest, operation_id: str, why: WhyNeeded) -> HttpResponse:
    """Needs `operate` (`admin` for the class secret) and a reason; each is in the journal."""
    with reach_gate() as store:
        data = reveal.execute(
            request.auth.actor,
            store=store,
            operation_id=operation_id,
            reason=why.reason,
            read_result=read_result,
        ).data
    return _json({**data, "payload": show_payload(data["payload"])}, 200)


def _own_tenant(caller: Caller) -> str | None:
    """The tenant whose results come back unasked: that of a key which may submit for it."""
    return caller.submits_as if caller.via == "api" and "submit" in caller.scopes else None


def _unknown() -> Problem:
    """Who asks for what is gone is told that it may have been lost with Redis's data, and when."""
    detail = "There is no such operation, or it is no longer kept."
    try:
        loss = desk.ask(newest_loss)
    except DatabaseAway:
        loss = None
    if loss is None:
        return Problem(404, "unknown", detail)
    return Problem(
        404,
        "unknown",
        f"{detail} Redis lost data within the last 24 hours: an operation accepted before is lost if it is "
        "not known here; submit it again.",
        extra={"data_lost_at_ms": loss["found_at_ms"]},
    )


def _replay_edited(store: Store, caller: Caller, job: Job, manner: Manner) -> Verdict:
    """An operator's edit of a held job: a new operation of the same tenant, with the first as its origin."""
    op_id = str(job.replay_of)

    def submit_it(held: QuarantinedJob) -> Verdict:
        offer = make_offer(caller, job, manner, op_id=replay_edited.edited_id(op_id), tenant=held.tenant)
        return admit(store, [replace(offer, replay_of=op_id)])[0]

    done = replay_edited.execute(caller.actor, store=store, op_id=op_id, submit=submit_it)
    verdict: Verdict = done.data["verdict"]
    return verdict


def _read_job(row: Any) -> Job:
    try:
        return Job.model_validate(row)
    except PydanticError as fault:
        error = fault.errors()[0]
        field = field_of(error["loc"]) or "job"
        raise Problem(422, "invalid", f"{field}: {say_fault(error)}", field=field) from fault


def _tell_verdict(verdict: Verdict, durability: str) -> dict[str, Any]:
    try:
        return answer_of(verdict, durability=durability)
    except Problem as problem:
        return problem.document()


def _tell_first_answer(store: Store, answer: dict[str, Any]) -> None:
    """A repeated submit is told when the first one was accepted, and how it stands now."""
    try:
        operation = store.read_operation(answer["operation_id"])
    except StoreUnavailable:
        return
    if operation is not None:
        answer["status"] = operation.status
        answer["queue"] = operation.queue
        if operation.degraded_from:
            answer["degraded_from"] = operation.degraded_from
        answer["accepted_at_ms"] = operation.times.get("accepted_at_ms") or answer["accepted_at_ms"]


def _json(document: dict[str, Any], status: int) -> HttpResponse:
    return HttpResponse(
        json.dumps(document, ensure_ascii=False, allow_nan=False),
        status=status,
        content_type="application/json",
    )

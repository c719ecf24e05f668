"""How is a job handed to the gate over HTTP, once, however often it takes?"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from .answers import Accepted, BulkVerdict, Job, parse_accepted, parse_job, parse_verdict
from .errors import DoorError, ProblemError, Refused, Unavailable, Unreachable, WaitTimeout, problem_error
from .retries import Retries, is_certain
from .retry_after import parse_date, parse_retry_after

#: First and longest pause between two looks at an operation, in seconds.
POLL_S, POLL_CAP_S = 0.05, 2.0

#: Under which a place in a queue's waiting room is shown.
TICKET_HEADER = "Sluicegate-Ticket"

#: Seconds of trying spent so far, to the body to send.
MakeBody = Callable[[float], Any]


class Client:
    """Safe to share between threads. ``timeout_s`` bounds one try, a call's ``patience_s`` all of them."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str,
        timeout_s: float = 10.0,
        patience_s: float = 60.0,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
        limits: httpx.Limits | None = None,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._retries = retries or Retries()
        self._now_s = now_s
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=f"{base_url.rstrip('/')}/api/v1",
            headers={"Authorization": f"Bearer {api_key}", "User-Agent": "sluicegate-client"},
            timeout=timeout_s,
            follow_redirects=False,
            transport=transport,
            limits=limits or httpx.Limits(max_connections=32),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit(
        self,
        task: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        countdown_s: float | None = None,
        deadline_s: float | None = None,
        ordering_key: str | None = None,
        coalesce_key: str | None = None,
        source_sequence: int | None = None,
        cost_ms: int | None = None,
        replay_until: str | int | None = None,
        tags: Sequence[str] = (),
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        patience_s: float | None = None,
    ) -> Accepted:
        """Offer one job until it is accepted, or until ``patience_s`` or the job's own deadline is over.

        Where others wait in line for room it takes its ticket along and is let in when it is its turn.
        Each submit carries an Idempotency-Key (made up where none is given), so a try whose answer was
        lost is not doubled by the next one. ``deadline_s`` counts from this call, not from each try.

        Raises:
            Refused, Unavailable, Unreachable: no later try was possible in time; ``gave_up`` says why.
            InvalidRequest, TooLarge, NotAuthenticated, NotAllowed, Duplicate: trying again would not help.
        """
        body: dict[str, Any] = {"task": task, "args": list(args), "kwargs": dict(kwargs or {})}
        optional = {
            "queue": queue,
            "countdown_s": countdown_s,
            "ordering_key": ordering_key,
            "coalesce_key": coalesce_key,
            "source_sequence": source_sequence,
            "cost_ms": cost_ms,
            "replay_until": replay_until,
            "tags": list(tags) or None,
        }
        body.update({name: value for name, value in optional.items() if value is not None})

        def make_body(spent_s: float) -> dict[str, Any]:
            if deadline_s is None:
                return body
            return {**body, "deadline_s": max(0.001, round(deadline_s - spent_s, 3))}

        patience = self._patience_s if patience_s is None else patience_s
        if deadline_s is not None:
            patience = min(patience, deadline_s)
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        if traceparent is not None:
            headers["traceparent"] = traceparent
        started_s = self._now_s()
        answer, tries = self._call("POST", "/jobs", patience_s=patience, make_body=make_body, headers=headers)
        return parse_accepted(answer.json(), tries=tries, waited_s=self._now_s() - started_s)

    def submit_bulk(
        self, jobs: Sequence[Mapping[str, Any]], *, patience_s: float | None = None
    ) -> list[BulkVerdict]:
        """Offer up to 1,000 jobs in one round trip; a verdict each, in order.

        Jobs that were refused are offered again as ``submit`` does. A bulk whose answer was lost is not:
        it carries no idempotency keys, and could double.
        """
        patience = self._patience_s if patience_s is None else patience_s
        started_s = self._now_s()
        verdicts: dict[int, BulkVerdict] = {}
        places = list(range(len(jobs)))
        rounds = 0
        while places:
            spent_s = self._now_s() - started_s
            rows = [
                _with_ticket(_with_less_time(jobs[place], spent_s), verdicts.get(place)) for place in places
            ]
            found = self._offer_bulk(rows, patience - spent_s)
            verdicts.update(zip(places, found, strict=True))
            rounds += 1
            left_s = patience - (self._now_s() - started_s)
            waits = {place: self._wait_of(verdicts[place], rounds, left_s) for place in places}
            places = [place for place, wait_s in waits.items() if wait_s is not None]
            if places:
                self._sleep(max(wait_s for wait_s in waits.values() if wait_s is not None))
        return [verdicts[place] for place in range(len(jobs))]

    def _offer_bulk(self, rows: list[dict[str, Any]], patience_s: float) -> list[BulkVerdict]:
        answer, _ = self._call(
            "POST", "/jobs/bulk", patience_s=patience_s, make_body=lambda spent_s: rows, retry_uncertain=False
        )
        return [parse_verdict(document) for document in answer.json()["verdicts"]]

    def _wait_of(self, verdict: BulkVerdict, rounds: int, left_s: float) -> float | None:
        """Seconds until one job of a bulk may be offered again; None if it will not be."""
        error = verdict.error
        if not isinstance(error, (Refused, Unavailable)):
            return None
        wait_s, error.gave_up = self._retries.wait_before_next(error, uninvited=rounds, invited=rounds)
        if wait_s is not None and wait_s > left_s:
            error.gave_up = "patience"
            return None
        return wait_s

    def status(self, operation_id: str) -> Job:
        answer, _ = self._call("GET", _job_path(operation_id), patience_s=self._patience_s)
        return parse_job(answer.json())

    def wait(self, operation_id: str, *, timeout_s: float = 60.0) -> Job:
        """The job once it has settled.

        Raises:
            WaitTimeout: it has not; it goes on.
        """
        give_up_at_s = self._now_s() + timeout_s
        pause_s = POLL_S
        while True:
            job = self.status(operation_id)
            if job.is_settled:
                return job
            left_s = give_up_at_s - self._now_s()
            if left_s <= 0:
                raise WaitTimeout(f"{operation_id} is still {job.status} after {timeout_s:g} s")
            self._sleep(min(pause_s, left_s))
            pause_s = min(POLL_CAP_S, pause_s * 1.5)

    def cancel(self, operation_id: str) -> str:
        """``cancelled``, or ``requested`` where it runs already.

        Raises:
            AlreadySettled, Unknown.
        """
        answer, _ = self._call("DELETE", _job_path(operation_id), patience_s=self._patience_s)
        return "cancelled" if answer.status_code == 200 else "requested"

    def _call(
        self,
        method: str,
        path: str,
        *,
        patience_s: float,
        make_body: MakeBody | None = None,
        headers: Mapping[str, str] | None = None,
        retry_uncertain: bool = True,
    ) -> tuple[httpx.Response, int]:
        """The successful answer and the number of tries it took."""
        started_s = self._now_s()
        uninvited = invited = 0
        content: bytes | None = None
        self._retries.budget.note_call()
        while True:
            spent_s = self._now_s() - started_s
            if make_body is not None and content is None:
                content = json.dumps(make_body(spent_s), allow_nan=False).encode()
            timeout_s = max(0.05, min(self._timeout_s, patience_s - spent_s))
            try:
                return self._try_once(method, path, content, headers, timeout_s), uninvited + invited + 1
            except DoorError as error:
                failure = error
            if isinstance(failure, ProblemError) and failure.retry_after_s is not None:
                invited += 1
            else:
                uninvited += 1
            failure.tries = uninvited + invited
            if isinstance(failure, Refused) and failure.ticket:
                headers = {**(headers or {}), TICKET_HEADER: failure.ticket}
            if not is_certain(failure) and not retry_uncertain:
                raise failure
            wait_s, failure.gave_up = self._retries.wait_before_next(
                failure, uninvited=uninvited, invited=invited
            )
            if wait_s is None:
                raise failure
            if self._now_s() - started_s + wait_s > patience_s:
                failure.gave_up = "patience"
                raise failure
            if is_certain(failure):
                content = None  # known not to be stored: the next try may say how much time is left
            self._sleep(wait_s)

    def _try_once(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str] | None,
        timeout_s: float,
    ) -> httpx.Response:
        sent = dict(headers or {})
        if content is not None:
            sent["Content-Type"] = "application/json"
        try:
            answer = self._http.request(method, path, content=content, headers=sent, timeout=timeout_s)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as exc:
            raise Unreachable(f"{type(exc).__name__}: {exc}", is_certain=True) from exc
        except httpx.TransportError as exc:
            raise Unreachable(f"{type(exc).__name__}: {exc}", is_certain=False) from exc
        if answer.is_success:
            return answer
        raise _error_of(answer, is_cancel=method == "DELETE")


def _error_of(answer: httpx.Response, *, is_cancel: bool) -> ProblemError:
    try:
        document = answer.json()
    except ValueError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    now = parse_date(answer.headers.get("Date")) or datetime.now(UTC)
    wait_s = parse_retry_after(answer.headers.get("Retry-After"), now=now)
    return problem_error(answer.status_code, document, retry_after_s=wait_s, is_cancel=is_cancel)


def _with_less_time(job: Mapping[str, Any], spent_s: float) -> dict[str, Any]:
    deadline_s = job.get("deadline_s")
    if not isinstance(deadline_s, (int, float)):
        return dict(job)
    return {**job, "deadline_s": max(0.001, round(deadline_s - spent_s, 3))}


def _with_ticket(job: dict[str, Any], before: BulkVerdict | None) -> dict[str, Any]:
    error = before.error if before else None
    return {**job, "ticket": error.ticket} if isinstance(error, Refused) and error.ticket else job


def _job_path(operation_id: str) -> str:
    # An id that holds a slash must not become another path.
    return f"/jobs/{quote(operation_id, safe='')}"

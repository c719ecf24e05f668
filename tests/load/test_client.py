"""Does the client take no for an answer, come back when asked, and give up in time?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.load.scripted_door import ACCEPTED, DROPPED, Asked, Scripted, refused, serve
from workers.client import (
    AlreadySettled,
    Client,
    Duplicate,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    ProblemError,
    Refused,
    Retries,
    RetryBudget,
    TooLarge,
    Unavailable,
    Unknown,
    Unreachable,
    WaitTimeout,
)


@dataclass
class Time:
    """A clock that only sleeping moves."""

    at_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at_s += seconds


@contextmanager
def door(
    *answers: Scripted, retries: Retries | None = None, patience_s: float = 60.0
) -> Iterator[tuple[Client, list[Asked], Time]]:
    time = Time()
    with serve(answers) as (url, asked):
        client = Client(
            url,
            api_key="key",
            patience_s=patience_s,
            retries=retries or Retries(draw=lambda: 1.0),
            now_s=time.now_s,
            sleep=time.sleep,
        )
        with client:
            yield client, asked, time


def test_an_accepted_job_is_submitted_once_with_all_that_was_said() -> None:
    with door(ACCEPTED) as (client, asked, time):
        accepted = client.submit("a.task", [1], {"b": 2}, queue="bulk", cost_ms=5, tags=["x"])
    assert (accepted.operation_id, accepted.tries, time.slept) == ("op-1", 1, [])
    assert asked[0].path == "/api/v1/jobs"
    assert asked[0].headers["Authorization"] == "Bearer key"
    assert asked[0].body == {
        "task": "a.task",
        "args": [1],
        "kwargs": {"b": 2},
        "queue": "bulk",
        "cost_ms": 5,
        "tags": ["x"],
    }


def test_a_refusal_is_honoured_in_seconds_and_never_early() -> None:
    with door(refused("3"), refused("7"), ACCEPTED, patience_s=30) as (client, asked, time):
        accepted = client.submit("a.task")
    assert accepted.tries == len(asked) == 3
    assert 3 <= time.slept[0] <= 4 and 7 <= time.slept[1] <= 8
    assert accepted.waited_s == sum(time.slept)


def test_a_refusal_is_honoured_as_a_date_by_the_doors_own_clock() -> None:
    theirs = datetime(2001, 1, 1, tzinfo=UTC)
    date, later = (
        format_datetime(theirs, usegmt=True),
        format_datetime(theirs + timedelta(seconds=9), usegmt=True),
    )
    answer = Scripted(503, {"reason": "mode"}, {"Retry-After": later, "X-Date": date})
    with door(answer, ACCEPTED) as (client, _, time):
        client.submit("a.task")
    # The tiny server sends its real Date; the date of 2001 is long past by it, so that only jitter is left.
    assert time.slept[0] <= 2


def test_every_try_of_a_submit_carries_the_same_idempotency_key() -> None:
    with door(refused("1"), DROPPED, ACCEPTED) as (client, asked, _):
        client.submit("a.task")
        client.submit("a.task")
    keys = [request.headers["Idempotency-Key"] for request in asked]
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_a_return_that_the_door_invited_costs_no_budget() -> None:
    budget = RetryBudget(most=1.0)
    with door(*[refused("1")] * 8, ACCEPTED, retries=Retries(budget=budget, draw=lambda: 0.0)) as (
        client,
        asked,
        _,
    ):
        client.submit("a.task")
    assert len(asked) == 9
    assert budget.tokens == 1.0


def test_uninvited_retries_stop_when_the_budget_is_spent() -> None:
    budget = RetryBudget(ratio=0.0, most=2.0)
    retries = Retries(attempts=100, budget=budget, draw=lambda: 0.0)
    with door(DROPPED, retries=retries) as (client, asked, _):
        with pytest.raises(Unreachable) as caught:
            client.submit("a.task")
        assert (caught.value.gave_up, caught.value.tries, len(asked)) == ("budget", 3, 3)
        with pytest.raises(Unreachable):
            client.submit("a.task")
    assert len(asked) == 4


def test_uninvited_retries_back_off_with_full_jitter_and_an_end() -> None:
    retries = Retries(attempts=5, base_s=0.1, cap_s=0.5, draw=lambda: 1.0)
    with door(Scripted(502), retries=retries) as (client, _, time), pytest.raises(ProblemError) as caught:
        client.submit("a.task")
    assert caught.value.gave_up == "attempts"
    assert time.slept == [0.2, 0.4, 0.5, 0.5]


def test_it_does_not_wait_for_a_time_beyond_its_patience() -> None:
    with door(refused("100")) as (client, asked, time), pytest.raises(Refused) as caught:
        client.submit("a.task", patience_s=10)
    assert (caught.value.gave_up, caught.value.retry_after_s, time.slept, len(asked)) == (
        "patience",
        100,
        [],
        1,
    )


def test_the_jobs_deadline_bounds_the_patience_and_shrinks_with_each_refused_try() -> None:
    with (
        door(refused("2"), refused("2"), refused("2"), patience_s=100) as (client, asked, _),
        pytest.raises(Refused),
    ):
        client.submit("a.task", deadline_s=5)
    assert [request.body["deadline_s"] for request in asked] == [5, pytest.approx(2.6, abs=0.5)]


def test_a_try_whose_answer_was_lost_is_repeated_to_the_letter() -> None:
    with door(DROPPED, ACCEPTED) as (client, asked, _):
        client.submit("a.task", deadline_s=30)
    assert asked[0].body == asked[1].body


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (401, NotAuthenticated),
        (403, NotAllowed),
        (409, Duplicate),
        (413, TooLarge),
        (422, InvalidRequest),
    ],
)
def test_what_trying_again_would_not_help_is_raised_at_once(status: int, kind: type[ProblemError]) -> None:
    problem = {"status": status, "reason": "some_reason", "detail": "why", "field": "queue"}
    with door(Scripted(status, problem)) as (client, asked, _), pytest.raises(kind) as caught:
        client.submit("a.task")
    assert len(asked) == 1
    assert (caught.value.reason, caught.value.field, caught.value.gave_up) == ("some_reason", "queue", None)


def test_an_answer_that_is_no_problem_document_is_still_an_error() -> None:
    with door(Scripted(403, ["not", "a", "problem"])) as (client, _, _), pytest.raises(NotAllowed) as caught:
        client.submit("a.task")
    assert caught.value.reason == "http_403"


def test_a_door_that_is_not_there_is_unreachable_and_certain() -> None:
    with serve([ACCEPTED]) as (url, _):
        pass
    time = Time()
    client = Client(url, api_key="key", now_s=time.now_s, sleep=time.sleep, retries=Retries(attempts=2))
    with client, pytest.raises(Unreachable) as caught:
        client.submit("a.task")
    assert caught.value.is_certain
    assert caught.value.tries == 2


def test_without_retries_each_call_is_made_once() -> None:
    with door(refused("1"), retries=Retries.none()) as (client, asked, _), pytest.raises(Refused):
        client.submit("a.task")
    assert len(asked) == 1


def bulk_answer(*verdicts: dict[str, object]) -> Scripted:
    return Scripted(200, {"verdicts": list(verdicts)})


def test_only_the_refused_jobs_of_a_bulk_are_offered_again() -> None:
    yes = dict(ACCEPTED.document)
    no = {"status": 429, "reason": "count", "detail": "full", "retry_after_s": 2}
    never = {"status": 422, "reason": "unknown_task", "detail": "no such task"}
    with door(bulk_answer(yes, no, never), bulk_answer({**yes, "operation_id": "op-2"})) as (
        client,
        asked,
        time,
    ):
        verdicts = client.submit_bulk([{"task": "a"}, {"task": "b", "deadline_s": 10}, {"task": "c"}])
    assert [bool(verdict.accepted) for verdict in verdicts] == [True, True, False]
    assert isinstance(verdicts[2].error, InvalidRequest)
    assert asked[1].body == [{"task": "b", "deadline_s": pytest.approx(10 - time.slept[0])}]


def test_a_bulk_whose_answer_was_lost_is_not_sent_again() -> None:
    with door(DROPPED) as (client, asked, _), pytest.raises(Unreachable):
        client.submit_bulk([{"task": "a"}])
    assert len(asked) == 1


def job(status: str) -> Scripted:
    return Scripted(
        200, {"operation_id": "op-1", "status": status, "queue": "bulk", "times": {}, "result": 7}
    )


def test_wait_looks_ever_less_often_until_the_job_has_settled() -> None:
    with door(job("pending"), job("running"), job("running"), job("succeeded")) as (client, asked, time):
        settled = client.wait("op/1")
    assert (settled.status, settled.result) == ("succeeded", 7)
    assert time.slept == sorted(time.slept) and len(time.slept) == 3
    assert asked[0].path == "/api/v1/jobs/op%2F1"


def test_wait_gives_up_in_time() -> None:
    with door(job("running")) as (client, _, time), pytest.raises(WaitTimeout):
        client.wait("op-1", timeout_s=5)
    assert time.at_s == pytest.approx(5)


@pytest.mark.parametrize(("status", "result"), [(200, "cancelled"), (202, "requested")])
def test_cancel_says_what_it_did(status: int, result: str) -> None:
    with door(Scripted(status, {"result": result})) as (client, asked, _):
        assert client.cancel("op-1") == result
    assert asked[0].method == "DELETE"


@pytest.mark.parametrize(("status", "kind"), [(409, AlreadySettled), (404, Unknown)])
def test_cancel_tells_what_it_could_not_do(status: int, kind: type[ProblemError]) -> None:
    with (
        door(Scripted(status, {"status": status, "reason": "settled"})) as (client, _, _),
        pytest.raises(kind),
    ):
        client.cancel("op-1")


def test_unavailable_without_a_time_is_retried_by_backoff() -> None:
    answers: Sequence[Scripted] = [refused(None, status=503, reason="unavailable"), ACCEPTED]
    with door(*answers) as (client, asked, time):
        client.submit("a.task")
    assert len(asked) == 2 and 0 < time.slept[0] <= 0.4


def test_unavailable_for_good_is_told_as_such() -> None:
    with (
        door(refused(None, status=503, reason="mode")) as (client, _, _),
        pytest.raises(Unavailable) as caught,
    ):
        client.submit("a.task")
    assert caught.value.gave_up == "attempts"


def in_line(ticket: str, position: int, retry_after: str = "3") -> Scripted:
    document = {
        "status": 429,
        "reason": "waiting_room",
        "detail": "Others wait in line.",
        "ticket": ticket,
        "position": position,
    }
    return Scripted(429, document, {"Retry-After": retry_after})


def test_it_waits_in_line_with_the_newest_ticket_that_it_was_given() -> None:
    with door(in_line("one", 4), in_line("one", 1), in_line("two", 9), ACCEPTED) as (client, asked, time):
        assert client.submit("t").tries == 4
    shown = [{name.lower(): value for name, value in ask.headers.items()} for ask in asked]
    assert [headers.get("sluicegate-ticket") for headers in shown] == [None, "one", "one", "two"]
    assert all(slept >= 3 for slept in time.slept)


def test_giving_up_in_line_tells_the_ticket_and_the_position() -> None:
    with door(in_line("one", 4, "100")) as (client, _, _), pytest.raises(Refused) as caught:
        client.submit("t", patience_s=5)
    assert (caught.value.ticket, caught.value.position, caught.value.gave_up) == ("one", 4, "patience")


def test_jobs_of_a_bulk_wait_in_line_each_with_its_own_ticket() -> None:
    refusal = {"status": 429, "reason": "waiting_room", "detail": "d", "retry_after_s": 1}
    accepted = ACCEPTED.document
    first = bulk_answer({**refusal, "ticket": "a"}, accepted, {**refusal, "ticket": "b"})
    with door(first, bulk_answer(accepted, accepted)) as (client, asked, _):
        verdicts = client.submit_bulk([{"task": "t"}] * 3)
    assert all(verdict.accepted for verdict in verdicts)
    assert [row.get("ticket") for row in asked[1].body] == ["a", "b"]

"""Is a submit answered as it must be: accepted, refused, or told which field is at fault?"""

from __future__ import annotations

import json
import re
import time
import uuid

import pytest

from queues_ui.access.threads import REPEATED, build_environ
from queues_ui.queries import standing_mode
from workers.actions.naming import tell_known
from workers.exceptions import StoreUnavailable
from workers.models import ApiKey, JournalEntry
from workers.store import Store

ECHO = {"task": "drill.echo", "args": [1]}


def test_an_accepted_job_is_stored_and_told_where_to_look(api, gate: Store):
    answer = api.post("/jobs", ECHO)
    assert answer.status_code == 202
    said = answer.json()
    assert set(said) == {"operation_id", "status", "queue", "accepted_at_ms", "durability", "status_url"}
    assert said["status"] == "pending" and said["queue"] == "normal"
    assert answer["Location"] == said["status_url"]
    operation = gate.read_operation(said["operation_id"])
    assert operation is not None and operation.tenant == "default"
    assert gate.snapshot()["queues"]["normal"]["depth"] == 1


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "task"),
        ({"task": 3}, 422, "task"),
        ({"task": ""}, 422, "task"),
        ({"task": "t" * 201}, 422, "task"),
        ({"task": "no.such.task"}, 422, "task"),
        ({"task": "celery.backend_cleanup"}, 422, "task"),
        ({**ECHO, "args": "x"}, 422, "args"),
        ({**ECHO, "args": [1, 2, 3]}, 422, "args"),
        ({**ECHO, "kwargs": {"no_such": 1}}, 422, "kwargs"),
        ({**ECHO, "kwargs": []}, 422, "kwargs"),
        ({**ECHO, "queue": "nowhere"}, 422, "queue"),
        ({**ECHO, "countdown_s": -1}, 422, "countdown_s"),
        ({**ECHO, "countdown_s": "5"}, 422, "countdown_s"),
        ({**ECHO, "countdown_s": 1e12}, 422, "countdown_s"),
        ({**ECHO, "deadline_s": 0}, 422, "deadline_s"),
        ({**ECHO, "deadline_s": 5, "countdown_s": 5}, 422, "deadline_s"),
        ({**ECHO, "cost_ms": 1.5}, 422, "cost_ms"),
        ({**ECHO, "cost_ms": 0}, 422, "cost_ms"),
        ({**ECHO, "source_sequence": -1}, 422, "source_sequence"),
        ({**ECHO, "replay_until": "tomorrow"}, 422, "replay_until"),
        ({**ECHO, "replay_until": True}, 422, "replay_until"),
        ({**ECHO, "replay_until": 2.5}, 422, "replay_until"),
        ({**ECHO, "replay_until": 10**400}, 422, "replay_until"),
        ({**ECHO, "replay_until": "9999-12-31"}, 422, "replay_until"),
        ({**ECHO, "cost_ms": 10**400}, 422, "cost_ms"),
        ({**ECHO, "source_sequence": 2**53}, 422, "source_sequence"),
        ({**ECHO, "ordering_key": ""}, 422, "ordering_key"),
        ({**ECHO, "tags": "x"}, 422, "tags"),
        ({**ECHO, "deadline": 5}, 422, "deadline"),
        ([], 422, "body"),
        ("", 422, "body"),
        ("not json", 400, "body"),
        ('{"task": "drill.echo", "args": [NaN]}', 400, "body"),
        ('{"task": "drill.echo", "args": [1e999, Infinity]}', 400, "body"),
        ('{"task": "drill.echo", "args": ["\\ud800"]}', 400, "body"),
        (b"\xff\xfe{}", 400, "body"),
        ("[" * 1_000_000, 400, "body"),
        ('{"task": "drill.echo", "task": "drill.fail"}', 400, "task"),
        ('{"task": "drill.echo", "args": [{"a": 1, "b": {}, "a": 1}]}', 400, "a"),
        ('{"task": "drill.echo", "\\ud800": 1, "\\ud800": 2}', 400, "?"),
        ('{"task": "drill.echo", "args": ' + "[" * 200 + "]" * 200 + "}", 400, "body"),
    ],
)
def test_the_field_at_fault_is_named(api, gate: Store, body, status, field):
    answer = api.post("/jobs", body)
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["field"].split(".")[0] == field
    assert gate.snapshot()["queues"]["normal"]["totals"]["offered"] == 0


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/jobs", {**ECHO, "queue": "nromal"}, "(known: bulk, critical, normal, urgent)"),
        ("/jobs", {"task": "drill.ech"}, "(nearest: drill.echo). GET /api/v1/tasks lists"),
        ("/jobs", {"task": "my.own"}, "SLUICEGATE_IMPORTS"),
        (
            "/jobs",
            {**ECHO, "deadline": 5},
            "deadline: There is no such field; the fields are task, args, kwargs,",
        ),
        ("/jobs", {"tsk": "drill.echo"}, "tsk: There is no such field"),
        ("/jobs", "", "body: It is empty"),
        ("/jobs", "null", "body: It must be a JSON object"),
        (
            "/jobs",
            {**ECHO, "replay_until": True},
            "replay_until: It must be whole milliseconds",
        ),
        ("/jobs/bulk", {"jobs": []}, "jobs: List should have at least 1 item"),
        ("/jobs/bulk", {"jbs": [ECHO]}, "the fields are jobs, whole"),
        ("/jobs/bulk", "7", "body: Send a list of jobs"),
    ],
)
def test_a_fault_is_told_with_what_would_do(api, path, body, said):
    answer = api.post(path, body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_an_item_of_a_bulk_is_told_of_in_the_same_words(api):
    items = [5, None, [], {**ECHO, "replay_until": True}, {**ECHO, "tags": [""]}]
    told = api.post("/jobs/bulk", items).json()["verdicts"]
    assert [verdict["field"] for verdict in told] == ["job", "job", "job", "replay_until", "tags.0"]
    assert told[0]["detail"] == "job: It must be a JSON object"
    assert "whole milliseconds" in told[3]["detail"]


def test_a_body_of_unknown_names_gets_a_short_answer(api):
    answer = api.post("/jobs", {str(number): 1 for number in range(5_000)})
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 10)
    assert len(answer.content) < 2_000


def test_a_key_is_told_of_no_task_or_queue_that_is_not_its_own(key_for):
    key = key_for("submit", tasks=["drill.e*"], queues=["b*"])
    assert "(known: bulk)" in key.post("/jobs", {**ECHO, "queue": "bulks"}).json()["detail"]
    assert "drill.fail" not in key.post("/jobs", {"task": "drill.fai"}).json()["detail"]


def test_of_many_names_the_nearest_are_told():
    assert tell_known("a", []) == "none is known yet"
    many = [f"queue-{i}" for i in range(5_000)]
    assert tell_known("queue-77x", many).startswith("nearest of 5000: queue-")
    assert tell_known("zzz", many) == "5000 are known"


def test_a_number_that_overflows_to_infinity_is_not_stored(api, gate: Store):
    answer = api.post("/jobs", '{"task": "drill.echo", "args": [1e999]}')
    assert answer.status_code in (400, 422)


def test_a_delayed_job_is_scheduled(api):
    said = api.post("/jobs", {**ECHO, "countdown_s": 60}).json()
    job = api.get(f"/jobs/{said['operation_id']}").json()
    assert (job["status"], job["phase"]) == ("pending", "delayed")
    assert 59_000 < job["due_at_ms"] - said["accepted_at_ms"] <= 60_001
    assert set(job["times"]) == {
        "offered_at_ms",
        "accepted_at_ms",
        "enqueued_at_ms",
        "started_at_ms",
        "committed_at_ms",
        "reported_at_ms",
    }


def test_a_full_queue_answers_429_with_a_time_to_come_back(api, admin_api):
    assert api.put("/policies/bulk", {"max_count": 3}).status_code == 200
    answers = [api.post("/jobs", {**ECHO, "queue": "bulk"}) for _ in range(6)]
    assert [a.status_code for a in answers] == [202] * 3 + [429] * 3
    refused = answers[-1]
    assert refused.json()["reason"] == "count" and refused.json()["queue"] == "bulk"
    assert int(refused["Retry-After"]) >= 1
    assert refused.json()["retry_after_s"] == int(refused["Retry-After"])
    assert refused.json()["detail"].endswith("as its policy allows: 4 with this one, at most 3.")
    assert (refused.json()["figures"], refused.json()["unit"]) == ({"value": 4, "bound": 3}, "jobs")
    assert refused["RateLimit"].startswith('"count";r=0;t=')
    assert refused["RateLimit-Policy"].startswith('"count";q=3')


@pytest.mark.parametrize(
    ("policy", "unit", "said", "quota"),
    [
        ({"max_count": 4}, "jobs", "2 jobs with this one, at most 1 jobs", "concurrent-requests"),
        ({"max_bytes": 1000}, "bytes", " bytes with this one, at most 300 bytes", "content-bytes"),
        (
            {"max_cost_ms": 400},
            "ms",
            "200 ms of work with this one, at most 120 ms of work",
            "concurrent-requests",
        ),
    ],
)
def test_a_tenant_s_share_is_told_with_its_unit(api, key_for, policy, unit, said, quota):
    unbounded = {"max_count": None, "max_bytes": None, "max_cost_ms": None, "max_wait_s": None}
    assert api.put("/policies/bulk", {**unbounded, **policy, "tenant_share": 0.3}).status_code == 200
    job = {**ECHO, "queue": "bulk", "cost_ms": 100}
    assert key_for("submit", tenant="other").post("/jobs", job).status_code == 202
    answers = [api.post("/jobs", job) for _ in range(2)]
    refused = answers[-1]
    assert (refused.status_code, refused.json()["reason"], refused.json()["unit"]) == (429, "tenant", unit)
    assert said in refused.json()["detail"]
    assert f'qu="{quota}"' in refused["RateLimit-Policy"]


def fields_of(header: str) -> dict[str, dict[str, int]]:
    """A RateLimit field as RFC 9651 has it: a list of strings with parameters."""
    found = {}
    for item in header.split(", "):
        name, *parameters = item.split(";")
        assert re.fullmatch(r'"[ -~]+"', name)
        pairs = [parameter.split("=") for parameter in parameters]
        found[name[1:-1]] = {key: int(value) for key, value in pairs if not value.startswith('"')}
    return found


def test_a_rate_limit_says_what_is_left_and_then_refuses(api, key_for):
    limits = [
        {"per": "key", "limit": 2, "window_s": 60},
        {"per": "tenant", "kind": "sliding_window", "limit": 9, "window_s": 0.5},
    ]
    assert api.put("/policies/bulk", {"rate_limits": limits}).status_code == 200
    answers = [api.post("/jobs", {**ECHO, "queue": "bulk"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202, 202, 429]
    assert fields_of(answers[0]["RateLimit-Policy"])["key-token_bucket-60s"] == {"q": 2, "w": 60}
    left = [fields_of(answer["RateLimit"]) for answer in answers]
    assert [row["key-token_bucket-60s"]["r"] for row in left] == [1, 0, 0]
    assert left[0]["tenant-sliding_window-0.5s"] == {"r": 8, "t": 1}
    refused = answers[-1]
    assert refused.json()["reason"] == "rate"
    assert refused.json()["detail"] == "The rate limit is reached: 2 in 60 s per key."
    assert 30 <= int(refused["Retry-After"]) <= 38  # half a minute for one of two, and the jitter
    assert left[-1]["key-token_bucket-60s"]["t"] == int(refused["Retry-After"])
    assert api.post("/jobs", {**ECHO, "queue": "normal"}).status_code == 202
    assert key_for("submit").post("/jobs", {**ECHO, "queue": "bulk"}).status_code == 202


def test_a_limit_counted_by_each_producer_is_kept_by_the_door_too(api, gate: Store):
    limits = [{"per": "tenant", "limit": 3, "window_s": 3600, "where": "local"}]
    assert api.put("/policies/bulk", {"rate_limits": limits}).status_code == 200
    answers = [api.post("/jobs", {**ECHO, "queue": "bulk"}) for _ in range(8)]
    assert [answer.status_code for answer in answers] == [202] * 4 + [429] * 4  # the first one learned of it
    assert answers[-1].json()["reason"] == "rate"
    assert int(answers[-1]["Retry-After"]) > 60
    told = api.post("/jobs/bulk", [{**ECHO, "queue": "normal"}, {**ECHO, "queue": "bulk"}]).json()["verdicts"]
    assert [verdict.get("reason") for verdict in told] == [None, "rate"]
    totals = gate.snapshot()["queues"]["bulk"]["totals"]
    assert (totals["offered"], totals["accepted"], totals["refused_by"]) == (9, 4, {"rate": 5})


def test_a_repeated_submit_is_answered_however_full_the_queue_is(api):
    api.put("/policies/bulk", {"max_count": 1})
    first = api.post("/jobs", {**ECHO, "queue": "bulk"}, Idempotency_Key="same")
    assert first.status_code == 202
    assert api.post("/jobs", {**ECHO, "queue": "bulk"}).status_code == 429
    again = api.post("/jobs", {**ECHO, "queue": "bulk"}, Idempotency_Key="same")
    assert (again.status_code, again.json()["operation_id"]) == (202, first.json()["operation_id"])


def test_a_waiting_room_gives_a_ticket_and_lets_it_in_when_it_is_its_turn(api, key_for, gate: Store):
    rooms = {"max_count": 1, "waiting_room_max": 20}
    assert api.put("/policies/bulk", rooms).status_code == 200
    job = {**ECHO, "queue": "bulk"}
    assert api.post("/jobs", job).status_code == 202
    first, second = (api.post("/jobs", job, Idempotency_Key=f"k{n}") for n in (1, 2))
    assert [answer.status_code for answer in (first, second)] == [429, 429]
    told = first.json()
    assert (told["reason"], told["position"], told["state"]) == ("waiting_room", 1, "waiting")
    assert told["modeled_wait_s"] is None and "modeled_wait_s" in told["unknown"]
    assert first["Sluicegate-Ticket"] == told["ticket"]
    assert int(first["Retry-After"]) >= 1
    assert second.json()["position"] == 2
    gate.publish_model("bulk", {"service_rate_per_s": 0.1})
    seen = api.get(second.json()["ticket_url"].removeprefix("/api/v1"))
    assert seen.status_code == 200, seen.content
    assert (seen.json()["position"], seen.json()["modeled_wait_s"]) == (2, 20.0)
    assert 20 <= int(seen["Retry-After"]) <= 25
    stranger = key_for("submit", tenant="stranger")
    assert stranger.get(f"/tickets/{told['ticket']}").status_code == 404
    gate.claim("w", ["bulk"], 1)
    assert stranger.post("/jobs", job, Sluicegate_Ticket=told["ticket"]).status_code == 429
    assert api.post("/jobs", job, Sluicegate_Ticket=second.json()["ticket"]).status_code == 429
    assert api.get(f"/tickets/{told['ticket']}").json()["state"] == "called"
    # The same submit with its ticket in the body: it is the same job to its Idempotency-Key.
    let_in = api.post("/jobs", {**job, "ticket": told["ticket"]}, Idempotency_Key="k1")
    assert let_in.status_code == 202
    again = api.post("/jobs", job, Idempotency_Key="k1")
    assert again.json()["operation_id"] == let_in.json()["operation_id"]
    assert api.get(f"/tickets/{told['ticket']}").status_code == 404


def test_a_called_ticket_is_told_which_other_bound_is_full(api):
    bounds = {"max_count": 100, "max_cost_ms": 3000, "waiting_room_max": 5}
    assert api.put("/policies/bulk", bounds).status_code == 200
    job = {**ECHO, "queue": "bulk", "cost_ms": 2000}
    answers = [api.post("/jobs", job) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 429]
    ticket = answers[1].json()["ticket"]
    assert "Others wait in line" in answers[1].json()["detail"]
    refused = api.post("/jobs", job, Sluicegate_Ticket=ticket)
    told = refused.json()
    assert (refused.status_code, told["reason"], told["state"], told["unit"]) == (429, "cost", "called", "ms")
    assert (
        "4000 ms of work with this one, at most 3000 ms of work. Come back with the ticket" in told["detail"]
    )
    assert refused["Sluicegate-Ticket"] == ticket


def test_fifty_refused_clients_are_not_all_told_one_second(api):
    api.put("/policies/bulk", {"max_count": 1})
    api.post("/jobs", {**ECHO, "queue": "bulk"})
    waits = {api.post("/jobs", {**ECHO, "queue": "bulk"})["Retry-After"] for _ in range(50)}
    assert len(waits) > 1


def test_draining_refuses_with_503_and_the_mode_as_reason(api):
    assert api.put("/mode", {"mode": "draining", "reason": "release"}).status_code == 200
    refused = api.post("/jobs", ECHO)
    assert refused.status_code == 503
    assert refused.json()["reason"] == "mode"
    assert int(refused["Retry-After"]) >= 1
    told = refused.json()["mode"]
    assert (told["mode"], told["scope"], told["by"], told["until"]) == (
        "draining",
        "installation",
        "operator",
        None,
    )
    assert refused.json()["detail"].startswith(
        "The installation is draining, set by an operator: normal admits"
    )
    assert "release" not in refused.content.decode()


def test_a_mode_set_a_moment_ago_is_told_and_a_crowd_asks_redis_once(api, gate: Store, monkeypatch):
    api.put("/mode", {"mode": "draining", "queue": "bulk", "until": "drained"})
    job = {**ECHO, "queue": "bulk"}
    first = api.post("/jobs", job).json()
    said = (
        "The queue bulk is draining, set by an operator until it is drained: it admits nothing in this mode."
    )
    assert first["detail"] == said
    api.put("/mode", {"mode": "draining"})
    assert api.post("/jobs", ECHO).json()["mode"]["scope"] == "installation"
    api.put("/mode", {"mode": "normal"})
    reads = []
    read_modes = type(gate).read_modes
    monkeypatch.setattr(type(gate), "read_modes", lambda self: reads.append(1) or read_modes(self))
    told = api.post("/jobs/bulk", [job] * 50).json()["verdicts"]
    assert {verdict["mode"]["scope"] for verdict in told} == {"queue"}
    assert len(reads) <= 1
    gate.set_mode("*", "failed", by="monitor", reason="test", automatic=True)
    refused = api.post("/jobs", ECHO)
    assert (refused.status_code, refused.json()["reason"]) == (503, "unavailable")
    time.sleep(standing_mode.AGAIN_S)
    told = api.post("/jobs", ECHO).json()
    assert (told["mode"]["mode"], told["mode"]["by"]) == ("failed", "gate")


def test_without_the_modes_a_refusal_is_one_all_the_same(api, gate: Store, monkeypatch):
    api.put("/mode", {"mode": "draining"})

    def down(*args):
        raise StoreUnavailable("timeout")

    monkeypatch.setattr(type(gate), "read_modes", down)
    refused = api.post("/jobs", ECHO)
    assert (refused.status_code, refused.json()["reason"], "mode" in refused.json()) == (503, "mode", False)


def test_a_dead_redis_is_503_in_time_and_never_accepted(api, gate: Store, monkeypatch):
    def down(*args, **kwargs):
        raise StoreUnavailable("down")

    monkeypatch.setattr(type(gate), "admit", down)
    for _ in range(3):
        refused = api.post("/jobs", ECHO)
        assert refused.status_code == 503
        assert refused.json()["reason"] == "unavailable"
        assert int(refused["Retry-After"]) >= 1


def test_the_same_idempotency_key_gives_the_same_operation(api, gate: Store):
    key = str(uuid.uuid4())
    first = api.post("/jobs", ECHO, Idempotency_Key=key)
    again = api.post("/jobs", json.dumps({"args": [1], "task": "drill.echo"}), Idempotency_Key=key)
    assert first.status_code == again.status_code == 202
    assert first.json()["operation_id"] == again.json()["operation_id"]
    assert first.json()["accepted_at_ms"] == again.json()["accepted_at_ms"]
    assert again["Idempotency-Replayed"] == "true"
    assert gate.snapshot()["queues"]["normal"]["totals"]["accepted"] == 1


def test_the_same_idempotency_key_with_another_body_is_a_conflict(api):
    api.post("/jobs", ECHO, Idempotency_Key="k")
    other = api.post("/jobs", {**ECHO, "args": [2]}, Idempotency_Key="k")
    assert other.status_code == 409
    assert other.json()["reason"] == "duplicate"


def test_another_tenant_has_idempotency_keys_of_its_own(api, key_for):
    other = key_for("submit", "read", tenant="other")
    ids = {caller.post("/jobs", ECHO, Idempotency_Key="k").json()["operation_id"] for caller in (api, other)}
    assert len(ids) == 2


def test_an_idempotency_key_that_is_too_long_is_named(api):
    answer = api.post("/jobs", ECHO, Idempotency_Key="k" * 256)
    assert (answer.status_code, answer.json()["field"]) == (400, "Idempotency-Key")


def test_two_idempotency_keys_are_no_key(api, gate: Store):
    scope = {
        "method": "POST",
        "path": "/api/v1/jobs",
        "headers": [(b"idempotency-key", b"a"), (b"idempotency-key", b"b"), (b"prefer", b"wait=1")],
    }
    environ = build_environ(scope, b"{}")
    assert environ[REPEATED] == {"idempotency-key"}
    answer = api.client.post(
        "/api/v1/jobs",
        json.dumps(ECHO),
        content_type="application/json",
        headers={**api.headers, "Idempotency-Key": environ["HTTP_IDEMPOTENCY_KEY"]},
        **{REPEATED: environ[REPEATED]},
    )
    assert (answer.status_code, answer.json()["field"]) == (400, "Idempotency-Key")
    assert gate.snapshot()["queues"]["normal"]["totals"]["offered"] == 0


@pytest.mark.parametrize("path", ["/jobs", "/jobs/bulk", "/mode"])
def test_a_compressed_body_is_told_to_come_plain(api, path):
    method = api.put if path == "/mode" else api.post
    refused = method(path, b"\x1f\x8b\x08", Content_Encoding="gzip")
    assert (refused.status_code, refused.json()["field"]) == (415, "Content-Encoding")
    assert refused["Accept-Encoding"] == "identity"
    assert api.post("/jobs", ECHO, Content_Encoding="identity").status_code == 202


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_body_is_json_whatever_it_is_called_and_needs_a_key_or_a_token(api, logged_in, content_type):
    def send(caller):
        raw = json.dumps(ECHO)
        return caller.client.generic(
            "POST", "/api/v1/jobs", raw, content_type=content_type, headers=caller.headers
        )

    assert send(api).status_code == 202
    assert send(logged_in("operator")).status_code == 202
    assert send(logged_in("operator", token=False)).json()["reason"] == "csrf"


def test_traceparent_goes_with_the_operation(api):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    said = api.post("/jobs", ECHO, traceparent=trace).json()
    assert api.get(f"/jobs/{said['operation_id']}").json()["traceparent"] == trace
    said = api.post("/jobs", ECHO, traceparent="rubbish").json()
    assert api.get(f"/jobs/{said['operation_id']}").json()["traceparent"] is None


def test_a_key_is_held_to_its_tasks_and_queues(key_for):
    key = key_for("submit", tasks=["drill.e*"], queues=["b*"])
    assert key.post("/jobs", {**ECHO, "queue": "bulk"}).status_code == 202
    refused = key.post("/jobs", ECHO)
    assert (refused.status_code, refused.json()["field"]) == (403, "queue")
    refused = key.post("/jobs", {"task": "drill.fail", "args": ["x"], "queue": "bulk"})
    assert (refused.status_code, refused.json()["field"]) == (403, "task")


def test_a_bulk_submit_gives_a_verdict_each(api):
    api.put("/policies/bulk", {"max_count": 2})
    good = {**ECHO, "queue": "bulk"}
    answer = api.post("/jobs/bulk", [good, {"task": "no.such"}, good, good])
    assert answer.status_code == 200
    said = answer.json()
    assert (said["accepted"], said["refused"]) == (2, 2)
    assert [v["status"] for v in said["verdicts"]] == ["pending", 422, "pending", 429]
    assert int(answer["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("header", "path", "body", "fix"),
    [
        ("Idempotency-Key", "/jobs/bulk", [ECHO], "to /api/v1/jobs, each with its own key"),
        ("Sluicegate-Ticket", "/jobs/bulk", [ECHO], "give it as `ticket` in its item"),
        ("Idempotency-Key", "/keys", {"scopes": ["read"]}, "make another and revoke the first"),
    ],
)
def test_a_header_that_a_route_cannot_keep_is_refused_and_not_passed_over(
    admin_api, gate: Store, header, path, body, fix
):
    keys = ApiKey.objects.count()
    refused = admin_api.post(path, body, **{header.replace("-", "_"): "k1"})
    assert (refused.status_code, refused.json()["field"]) == (400, header)
    assert fix in refused.json()["detail"]
    assert gate.snapshot()["queues"]["normal"]["totals"]["offered"] == 0
    assert ApiKey.objects.count() == keys
    assert admin_api.post(path, body).status_code in (200, 201)
    described = admin_api.client.get("/api/v1/openapi.json").json()["paths"][f"/api/v1{path}"]["post"]
    assert "400" in described["responses"]
    assert header not in [parameter["name"] for parameter in described.get("parameters", ())]


def test_a_whole_bulk_submit_accepts_all_or_none(api, gate: Store):
    api.put("/policies/bulk", {"max_count": 2})
    answer = api.post("/jobs/bulk", {"jobs": [{**ECHO, "queue": "bulk"}] * 3, "whole": True}).json()
    assert answer["accepted"] == 0
    assert gate.snapshot()["queues"]["bulk"]["depth"] == 0


def test_cancel_is_told_apart_from_settled_and_unknown(api):
    said = api.post("/jobs", {**ECHO, "countdown_s": 600}).json()
    path = f"/jobs/{said['operation_id']}"
    assert api.delete(path).status_code == 200
    assert api.delete(path).status_code == 200
    assert JournalEntry.objects.filter(verb="cancel").count() == 1, "the second one changed nothing"
    assert api.get(path).json()["status"] == "cancelled"
    assert api.delete(f"/jobs/{uuid.uuid4()}").status_code == 404


def test_a_settled_job_cannot_be_cancelled(api, gate: Store):
    from workers.store import Settlement

    said = api.post("/jobs", ECHO).json()
    claimed = gate.claim("w1", ["normal"])[0]
    for _ in range(2):
        assert api.delete(f"/jobs/{said['operation_id']}").status_code == 202  # it is in a worker's hands
    assert JournalEntry.objects.filter(verb="cancel").count() == 1
    other = api.post("/jobs", ECHO).json()
    claimed = gate.claim("w1", ["normal"])[0]
    gate.settle([Settlement(claimed.id, claimed.epoch, "succeeded", run_ms=5)])
    refused = api.delete(f"/jobs/{other['operation_id']}")
    assert refused.status_code == 409
    assert api.get(f"/jobs/{other['operation_id']}").json()["status"] == "succeeded"


def test_a_tenant_sees_and_cancels_its_own_jobs_only(api, key_for, admin_api):
    said = api.post("/jobs", {**ECHO, "countdown_s": 600}).json()
    path = f"/jobs/{said['operation_id']}"
    other = key_for("submit", "read", "operate", tenant="other")
    assert other.get(path).status_code == 404
    assert other.delete(path).status_code == 404
    assert admin_api.get(path).status_code == 200
    assert api.get(path).json()["status"] == "pending"

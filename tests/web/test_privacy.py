"""Who may see what a job carries, and is each look written down?"""

from __future__ import annotations

import base64
import json

import pytest
from django.core.management import CommandError, call_command

from config.locations import result_backend
from queues_ui.queries import engine
from workers.actions import bootstrap
from workers.actions.gate import redis_now_ms
from workers.exceptions import StoreUnavailable
from workers.loops.deleter import Deleter
from workers.loops.facts import read_facts
from workers.loops.recorder import Recorder
from workers.loops.retention import forget_payloads
from workers.models import ApiKey, JournalEntry, QuarantinedJob
from workers.privacy import seal
from workers.store import Settlement, Store
from workers.transport.holdings import Held, note_error

MARK = "MARKED-s3cret"
BODY = {"task": "drill.echo", "args": [MARK], "kwargs": {}}


@pytest.fixture(autouse=True)
def results(gate, redis_url):
    """Results are kept in Redis, as an installation keeps them; the fixture of the gate undoes it."""
    app = engine.celery_app()
    app.conf.result_backend, _ = result_backend(redis_url)
    app._local.__dict__.pop("backend", None)
    app._backend_cache = None


def submit(api, **fields):
    answer = api.post("/jobs", {**BODY, **fields})
    assert answer.status_code == 202, answer.content
    return answer.json()["operation_id"]


def end(gate, outcome="succeeded", *, result=None, message=MARK):
    """Runs what waits, as a worker would."""
    for job in gate.claim("w1@host", ["normal"], 10):
        if outcome == "succeeded" and result is not None:
            engine.celery_app().backend.store_result(job.id, result, "SUCCESS")
        error = {"type": "app.Broken", "message": message, "traceback": f"Traceback\napp.Broken: {message}"}
        gate.settle(
            [Settlement(job.id, job.epoch, outcome, run_ms=1, error=error if outcome == "failed" else None)]
        )


def fail(gate):
    end(gate, "failed")
    Recorder(gate).tick()


def test_a_class_is_declared_or_the_queues_default_is_taken(api, gate):
    classes = {c: submit(api, payload_class=c) for c in ("public", "internal", "personal")}
    unnamed = submit(api)
    assert api.get(f"/jobs/{unnamed}").json()["payload_class"] == "internal"
    for name, op_id in classes.items():
        assert api.get(f"/jobs/{op_id}").json()["payload_class"] == name
    assert api.put("/policies/normal", {"payload_class": "personal", "reason": "law"}).status_code == 200
    assert api.get(f"/jobs/{submit(api)}").json()["payload_class"] == "personal"
    wrong = api.post("/jobs", {**BODY, "payload_class": "hidden"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "payload_class")
    bulk = api.post(
        "/jobs/bulk", [{**BODY, "payload_class": "public"}, {**BODY, "payload_class": "no"}]
    ).json()
    assert [verdict["status"] for verdict in bulk["verdicts"]] == ["pending", 422]


@pytest.mark.parametrize("payload_class", ["internal", "personal"])
def test_arguments_that_wait_are_shown_redacted(api, gate, payload_class):
    op_id = submit(api, payload_class=payload_class)
    shown = api.get(f"/jobs/{op_id}")
    assert MARK not in shown.content.decode()
    assert json.loads(shown.json()["args_text"]) == {"args": ["redacted"], "kwargs": {}}


def test_public_arguments_are_shown_but_for_what_a_name_gives_away(api, gate):
    op_id = submit(api, payload_class="public", args=[{"order": 7, "apiKey": MARK}])
    assert json.loads(api.get(f"/jobs/{op_id}").json()["args_text"])["args"] == [
        {"order": 7, "apiKey": "redacted"}
    ]


def test_a_program_gets_its_own_internal_result_and_others_do_not(api, gate, logged_in, key_for):
    op_id = submit(api)
    end(gate, result={"total": MARK})
    assert api.get(f"/jobs/{op_id}").json()["result"] == {"total": MARK}
    for other in (logged_in("admin"), logged_in("operator"), logged_in("viewer"), key_for("read")):
        shown = other.get(f"/jobs/{op_id}")
        assert MARK not in shown.content.decode()
        assert shown.json()["result"] is None and shown.json()["unknown"]["result"].startswith("redacted")


def test_a_personal_result_is_redacted_for_its_program_too(api, gate):
    op_id = submit(api, payload_class="personal")
    end(gate, result=MARK)
    assert MARK not in api.get(f"/jobs/{op_id}").content.decode()
    assert api.post(f"/jobs/{op_id}/reveal", {"reason": "invoice 7"}).json()["result"] == MARK


def test_a_failure_of_a_personal_job_is_told_without_its_words(api, gate, logged_in):
    op_id = submit(api, payload_class="personal")
    fail(gate)
    for path in (
        f"/jobs/{op_id}",
        f"/quarantine/{op_id}",
        "/quarantine",
        "/queues",
        f"/quarantine?search={MARK}",
    ):
        assert MARK not in logged_in("admin").get(path).content.decode().replace(f"search={MARK}", "")
    assert api.get(f"/quarantine?search={MARK}").json()["count"] == 0
    assert api.get(f"/quarantine/{op_id}").json()["error_type"] == "app.Broken"
    assert MARK not in json.dumps(read_facts(redis_now_ms(gate)).quarantine)


def test_an_internal_failure_is_told_in_its_words(api, gate):
    op_id = submit(api)
    fail(gate)
    shown = api.get(f"/quarantine/{op_id}").json()
    assert shown["message"] == MARK and shown["args_text"] == '{"args": ["redacted"], "kwargs": {}}'


class TestReveal:
    def test_it_shows_arguments_error_and_bytes_and_is_written_down(self, api, gate):
        op_id = submit(api, payload_class="personal", kwargs={}, tags=["person:7"])
        fail(gate)
        shown = api.post(f"/jobs/{op_id}/reveal", {"reason": "ticket 4"})
        assert shown.status_code == 200
        told = shown.json()
        assert (told["args"], told["error"]["message"], told["payload_class"]) == ([MARK], MARK, "personal")
        assert told["payload"]["bytes"] > 0
        entry = JournalEntry.objects.get(verb="reveal")
        assert (entry.target, entry.reason, entry.outcome) == (op_id, "ticket 4", "done")
        assert entry.after["payload_class"] == "personal" and MARK not in json.dumps(entry.after)

    def test_it_needs_a_reason(self, api, gate):
        op_id = submit(api)
        for body in ({"reason": " "}, {}):
            answer = api.post(f"/jobs/{op_id}/reveal", body)
            assert (answer.status_code, answer.json()["field"]) == (422, "reason")
        assert not JournalEntry.objects.filter(verb="reveal", outcome="done").exists()

    @pytest.mark.parametrize(
        ("payload_class", "role", "status"),
        [
            ("internal", "viewer", 403),
            ("internal", "operator", 200),
            ("personal", "operator", 200),
            ("secret", "operator", 403),
            ("secret", "admin", 200),
        ],
    )
    def test_it_needs_the_role_that_the_class_asks_for(self, gate, logged_in, payload_class, role, status):
        QuarantinedJob.objects.create(
            op_id="held", queue="normal", payload=b"x", payload_class=payload_class, quarantined_at_ms=1
        )
        assert logged_in(role).post("/jobs/held/reveal", {"reason": "r"}).status_code == status
        outcome = "done" if status == 200 else "refused"
        assert JournalEntry.objects.filter(outcome=outcome).exists()

    def test_it_needs_a_token_and_a_scope(self, api, gate, logged_in, key_for):
        op_id = submit(api)
        answer = logged_in("operator", token=False).post(f"/jobs/{op_id}/reveal", {"reason": "r"})
        assert (answer.status_code, answer.json()["reason"]) == (403, "csrf")
        assert key_for("submit", "read").post(f"/jobs/{op_id}/reveal", {"reason": "r"}).status_code == 403

    def test_a_key_of_another_tenant_finds_nothing(self, api, gate, key_for):
        op_id = submit(api)
        other = key_for("operate", tenant="other")
        assert other.post(f"/jobs/{op_id}/reveal", {"reason": "r"}).status_code == 404


def test_payloads_go_when_their_class_says_so(gate):
    day_ms = 86_400_000
    for name, payload_class, age_days in (
        ("old", "personal", 8),
        ("young", "personal", 6),
        ("plain", "internal", 8),
    ):
        QuarantinedJob.objects.create(
            op_id=name,
            queue="normal",
            payload=b"x",
            message=MARK,
            payload_class=payload_class,
            quarantined_at_ms=100 * day_ms - age_days * day_ms,
        )
    assert forget_payloads(100 * day_ms) == 1
    old = QuarantinedJob.objects.get(op_id="old")
    assert (bytes(old.payload), old.message, old.state) == (b"", "", "discarded")
    assert old.payload_gone == "kept 7 days: personal"
    assert bytes(QuarantinedJob.objects.get(op_id="young").payload) == b"x"
    assert forget_payloads(100 * day_ms) == 0


class TestSuspension:
    def test_a_suspended_tenant_is_refused_held_and_resumed(self, api, gate):
        op_id = submit(api)
        assert api.post("/tenants/default/suspend", {"reason": " "}).status_code == 422
        done = api.post("/tenants/default/suspend", {"reason": "unpaid"}).json()
        assert (done["held"], done["in_force"]) == (1, True)
        refused = api.post("/jobs", BODY)
        assert (refused.status_code, refused.json()["reason"]) == (403, "suspended")
        assert "Retry-After" not in refused
        assert api.get(f"/jobs/{op_id}").json()["phase"] == "held"
        assert gate.claim("w", ["normal"], 5) == []
        listed = api.get("/suspensions").json()["suspensions"]
        assert [(row["tenant"], row["reason"]) for row in listed] == [("default", "unpaid")]
        assert api.post("/tenants/default/resume", {}).json()["released"] == 1
        assert submit(api)
        assert api.post("/tenants/default/resume", {}).status_code == 404
        verbs = JournalEntry.objects.filter(target="default", outcome="done").values_list("verb", flat=True)
        assert {"suspend_tenant", "resume_tenant"} <= set(verbs)

    def test_it_survives_a_redis_that_lost_everything(self, api, gate):
        api.post("/tenants/default/suspend", {"reason": "unpaid"})
        gate.client.flushall()
        bootstrap.restore_gate(gate)
        assert api.post("/jobs", BODY).json()["reason"] == "suspended"
        api.post("/tenants/default/resume", {})
        gate.suspend_tenant("default", {})  # what a resume that was killed leaves behind
        assert bootstrap.restore_gate(gate).authority == ["resumed default"]
        assert api.post("/jobs", BODY).status_code == 202

    def test_while_redis_is_away_the_wish_is_kept(self, api, gate, monkeypatch):
        def away(*args, **kwargs):
            raise StoreUnavailable("down")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "suspend_tenant", away)
            assert api.post("/tenants/default/suspend", {"reason": "unpaid"}).json()["in_force"] is False
        bootstrap.restore_gate(gate)
        assert api.post("/jobs", BODY).status_code == 403

    def test_by_role_and_token(self, gate, logged_in):
        path = "/tenants/x/suspend"
        assert logged_in("viewer").post(path, {"reason": "r"}).status_code == 403
        assert logged_in("operator", token=False).post(path, {"reason": "r"}).status_code == 403
        assert logged_in("operator").post(path, {"reason": "r"}).status_code == 200

    def test_a_revoked_keys_waiting_job_ends_and_says_why(self, api, admin_api, gate, key_for):
        key = key_for("submit", label="leaked")
        op_id = key.post("/jobs", BODY).json()["operation_id"]
        row = ApiKey.objects.get(label="leaked")
        assert admin_api.delete(f"/keys/{row.pk}").json()["in_force"] is True
        assert gate.claim("w", ["normal"], 5) == []
        ended = api.get(f"/jobs/{op_id}").json()
        assert (ended["status"], ended["cancelled_by"]) == ("cancelled", f"revoked key {row.prefix}")
        assert ended["error"]["type"] == "AuthorityRevoked"

    def test_the_command_line_does_the_same(self, gate, capsys):
        call_command("tenant", "suspend", "acme", "--reason", "r")
        call_command("tenant", "list")
        call_command("tenant", "resume", "acme")
        said = capsys.readouterr().out
        assert "suspended, held: 0 jobs" in said and "acme\tby" in said and "resumed, let go: 0" in said


class TestDeletion:
    def test_an_admin_orders_it_and_reads_the_receipt(self, api, admin_api, gate):
        op_id = submit(api, tags=["person:alice"])
        ordered = admin_api.post("/deletions", {"tag": "person:alice", "reason": "art. 17"})
        assert ordered.status_code == 202
        loop = Deleter(gate)
        for _ in range(4):
            loop.tick()
        receipt = admin_api.get(ordered.json()["status_url"].removeprefix("/api/v1")).json()
        assert (receipt["state"], receipt["counts"]["waiting"]) == ("done", 1)
        assert receipt["ended_at_ms"] >= receipt["began_at_ms"]
        found = admin_api.get("/deletions?tag=person:alice").json()["deletions"]
        assert [row["id"] for row in found] == [receipt["id"]]
        shown = api.get(f"/jobs/{op_id}").json()
        assert (shown["status"], shown["deletion"], shown["tags"]) == ("cancelled", receipt["id"], [])

    def test_a_stored_result_goes_too(self, api, admin_api, gate):
        op_id = submit(api, tags=["t"])
        end(gate, result=MARK)
        admin_api.post("/deletions", {"tag": "t", "reason": "r"})
        loop = Deleter(gate)
        for _ in range(4):
            loop.tick()
        assert MARK not in api.get(f"/jobs/{op_id}").content.decode()
        assert not list(gate.client.scan_iter(f"*{op_id}*"))

    def test_it_is_for_admins_and_says_what_it_needs(self, api, admin_api, gate, logged_in):
        for session in (api, logged_in("operator")):
            assert session.post("/deletions", {"tag": "t", "reason": "r"}).status_code == 403
            assert session.get("/deletions").status_code == 403
        assert (
            logged_in("admin", token=False).post("/deletions", {"tag": "t", "reason": "r"}).status_code == 403
        )
        for body, field in (({"reason": "r"}, "tag"), ({"tag": "t", "reason": " "}, "reason")):
            answer = admin_api.post("/deletions", body)
            assert (answer.status_code, answer.json()["field"]) == (422, field)


class TestEncryption:
    @pytest.fixture(autouse=True)
    def keys(self, monkeypatch):
        self.patch = monkeypatch
        self.first, self.second = (base64.urlsafe_b64encode(bytes([n]) * 32).decode() for n in (1, 2))
        self.old_id, self.new_id = (seal.id_of(bytes([n]) * 32) for n in (1, 2))
        monkeypatch.setenv(seal.ENV, self.first)

    def test_the_database_holds_ciphertext_and_the_right_people_read_it(self, api, admin_api, gate):
        op_id = submit(api, payload_class="secret")
        fail(gate)
        row = QuarantinedJob.objects.get(op_id=op_id)
        assert (row.key_id, seal.key_id_of(bytes(row.payload))) == (self.old_id, self.old_id)
        assert MARK.encode() not in bytes(row.payload) and MARK not in row.args_text
        assert api.post(f"/jobs/{op_id}/reveal", {"reason": "r"}).status_code == 403
        assert admin_api.post(f"/jobs/{op_id}/reveal", {"reason": "r"}).json()["args"] == [MARK]
        self.patch.setenv(seal.ENV, self.second)
        shown = admin_api.post(f"/jobs/{op_id}/reveal", {"reason": "r"}).json()
        assert shown["args"] is None and self.old_id in shown["unknown"]["arguments"]

    def test_what_a_personal_failure_said_is_ciphertext_too(self, api, admin_api, gate):
        op_id, other = submit(api, payload_class="personal"), submit(api, payload_class="personal")
        end(gate, "failed", message=f"no account of {MARK}")
        Recorder(gate).tick()
        row = QuarantinedJob.objects.get(op_id=op_id)
        assert (row.message, row.traceback, row.words_key_id) == ("", "", self.old_id)
        assert MARK.encode() not in bytes(row.words_sealed)
        shown = api.get(f"/quarantine/{op_id}").json()
        assert (shown["error_type"], shown["message"]) == ("app.Broken", "redacted")
        assert api.get("/quarantine").json()["jobs"][0]["message"] == "redacted"
        told = admin_api.post(f"/jobs/{op_id}/reveal", {"reason": "r"}).json()
        assert told["error"]["message"] == f"no account of {MARK}" and MARK in told["error"]["traceback"]
        # What is not searched is said, and the causes are told apart by what may be told.
        found = api.get("/quarantine?search=account").json()
        assert (found["count"], found["unsearched"]) == (0, 2)
        assert QuarantinedJob.objects.get(op_id=other).fingerprint == row.fingerprint
        self.patch.setenv(seal.ENV, self.second)
        shown = admin_api.post(f"/jobs/{op_id}/reveal", {"reason": "r"}).json()
        assert shown["error"] is None and self.old_id in shown["unknown"]["error"]
        assert api.get(f"/quarantine/{op_id}").json()["message"] == "redacted"

    def test_an_error_that_its_worker_encrypted_is_kept_and_told_as_its_class_allows(
        self, api, admin_api, gate
    ):
        op_id = submit(api, payload_class="personal")
        (job,) = gate.claim("w1@host", ["normal"], 1)
        trace = f'Traceback\n  File "/srv/app/a.py", line 3, in charge\n    raise\napp.Broken: {MARK}'
        held = Held(job.id, job.epoch, "normal", "t", 1, 3, 0, "tag", payload_class="personal")
        note_error(held, "app.Broken", f"no {MARK}", trace)
        assert MARK not in json.dumps(held.error)
        gate.settle([Settlement(job.id, job.epoch, "failed", run_ms=1, error=held.error)])
        assert MARK not in str(gate.client.hgetall(f"{gate.root}ops"))
        places = api.get(f"/jobs/{op_id}").json()["error"]
        assert (places["type"], places["message"]) == ("app.Broken", "redacted")
        assert places["traceback"].strip() == 'File "/srv/app/a.py", line 3, in charge'
        assert (
            admin_api.post(f"/jobs/{op_id}/reveal", {"reason": "r"}).json()["error"]["message"]
            == f"no {MARK}"
        )
        # A monitor without the key keeps what it cannot read.
        self.patch.setenv(seal.ENV, self.second)
        Recorder(gate).tick()
        row = QuarantinedJob.objects.get(op_id=op_id)
        assert (row.message, row.words_key_id) == ("", self.old_id)
        assert api.get(f"/jobs/{op_id}").json()["error"]["message"] == "redacted"
        self.patch.setenv(seal.ENV, self.first)
        assert (
            admin_api.post(f"/jobs/{op_id}/reveal", {"reason": "r"}).json()["error"]["message"]
            == f"no {MARK}"
        )

    def test_error_texts_of_before_are_encrypted_by_rekey(self, api, gate, capsys):
        self.patch.delenv(seal.ENV)
        op_id = submit(api, payload_class="personal")
        internal = submit(api)
        fail(gate)
        assert QuarantinedJob.objects.get(op_id=op_id).message == MARK  # as its payload is, without a key
        self.patch.setenv(seal.ENV, self.first)
        call_command("privacy", "rekey")
        assert "1 error texts renewed" in capsys.readouterr().out
        row = QuarantinedJob.objects.get(op_id=op_id)
        assert (row.message, row.traceback, row.words_key_id) == ("", "", self.old_id)
        assert QuarantinedJob.objects.get(op_id=internal).message == MARK
        self.patch.setenv(seal.ENV, f"{self.second},{self.first}")
        call_command("privacy", "rekey")
        assert "1 error texts renewed" in capsys.readouterr().out
        self.patch.setenv(seal.ENV, self.second)
        assert api.post(f"/jobs/{op_id}/reveal", {"reason": "r"}).json()["error"]["message"] == MARK

    def test_secret_is_refused_without_a_key(self, api, gate):
        self.patch.delenv(seal.ENV)
        answer = api.post("/jobs", {**BODY, "payload_class": "secret"})
        assert (answer.status_code, answer.json()["reason"]) == (422, "encryption")
        assert "SLUICEGATE_PAYLOAD_KEYS" in answer.json()["detail"]

    def test_rotation_rekeys_what_waits_and_what_is_held(self, api, gate, capsys):
        submit(api)
        fail(gate)
        waits = submit(api)
        self.patch.setenv(seal.ENV, f"{self.second},{self.first}")
        call_command("doctor")
        said = capsys.readouterr().out
        assert f"encrypted with key {self.new_id}; also opens {self.old_id}" in said
        assert f"2 still need key {self.old_id}" in said
        call_command("privacy", "rekey")
        assert (
            f"key {self.new_id}: 1 in Redis, 1 in quarantine, 0 error texts renewed"
            in capsys.readouterr().out
        )
        self.patch.setenv(seal.ENV, self.second)
        call_command("doctor")
        assert self.old_id not in capsys.readouterr().out
        assert api.post(f"/jobs/{waits}/reveal", {"reason": "r"}).json()["args"] == [MARK]
        assert gate.snapshot()["queues"]["normal"]["bytes"] == gate.recount()["normal"]["bytes"]

    def test_a_missing_key_is_a_fault_to_the_doctor(self, api, gate, capsys):
        submit(api)
        self.patch.setenv(seal.ENV, self.second)
        with pytest.raises(CommandError):
            call_command("doctor")
        assert f"1 need key {self.old_id}" in capsys.readouterr().out
        call_command("privacy", "rekey")
        assert f"1 in redis still need {self.old_id}" in capsys.readouterr().out


def test_a_held_jobs_arguments_are_shown_redacted_where_the_job_is_looked_up(api, gate):
    op_id = submit(api)
    fail(gate)
    shown = api.get(f"/jobs/{op_id}").json()
    assert (
        shown["args_text"] == '{"args": ["redacted"], "kwargs": {}}' and "args_text" not in shown["unknown"]
    )

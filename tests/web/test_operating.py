"""Do the operator's verbs do what they say, once, and leave a trace?"""

from __future__ import annotations

import uuid

import pytest
from django.core.management import call_command
from django.db import transaction

from workers.actions import bootstrap
from workers.actions.gate import redis_now_ms
from workers.actions.replay_edited import edited_id
from workers.models import (
    Alert,
    AlertRule,
    JournalEntry,
    PolicyVersion,
    QuarantinedJob,
    ReplayBatch,
    ReplayItem,
    Transition,
)
from workers.store import Settlement

pytestmark = pytest.mark.database


@pytest.fixture
def held(gate):
    rows = [
        QuarantinedJob(
            op_id=f"job-{i}",
            task="drill.fail",
            queue="normal",
            tenant="default" if i % 2 == 0 else "other",
            reason="failed",
            error_type="ValueError",
            message="<script>alert(1)</script>",
            payload=b"\x80\x04pickled \xff{{7*7}}",
            quarantined_at_ms=1_700_000_000_000 + i,
            fingerprint="f1" if i < 3 else "f2",
            bytes=20,
        )
        for i in range(6)
    ]
    QuarantinedJob.objects.bulk_create(rows)
    return QuarantinedJob.objects


def test_a_mode_is_set_journaled_and_survives_redis(api, gate):
    answer = api.put("/mode", {"mode": "draining", "queue": "bulk", "reason": "night", "until": "drained"})
    assert answer.status_code == 200
    assert api.get("/mode?queue=bulk").json()["mode"] == "draining"
    assert api.get("/mode").json()["mode"] == "normal"
    row = Transition.objects.get()
    assert (row.scope, row.before, row.after, row.until, row.reason) == (
        "bulk",
        "normal",
        "draining",
        "drained",
        "night",
    )
    assert JournalEntry.objects.filter(verb="set_mode", outcome="done", target="bulk").count() == 1
    gate.client.flushall()
    restored = bootstrap.restore_gate(gate)
    assert "bulk" in restored.modes and set(restored.policies) == {"critical", "urgent", "normal", "bulk"}
    mode = api.get("/mode?queue=bulk").json()
    assert (mode["mode"], mode["until"], mode["reason"]) == ("draining", "drained", "night")
    assert not bootstrap.restore_gate(gate)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "mode"),
        ({"mode": "failed"}, "mode"),
        ({"mode": "nonsense"}, "mode"),
        ({"mode": "normal", "until": "drained"}, "until"),
        ({"mode": "draining", "until": "soon"}, "until"),
        ({"mode": "draining", "until": 5}, "until"),
        ({"mode": "draining", "pinned": True}, "until"),
        ({"mode": "draining", "extra": 1}, "extra"),
    ],
)
def test_a_mode_that_makes_no_sense_is_refused(api, body, field):
    answer = api.put("/mode", body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert api.get("/mode").json()["mode"] == "normal"


@pytest.mark.parametrize(
    ("path", "body"),
    [("/mode", {"mode": "saturated"}), ("/policies/bulk", {"max_count": 9, "reason": " "})],
)
def test_where_a_program_gives_no_reason_the_journal_says_so_and_who(api, path, body):
    assert api.put(path, body).status_code == 200
    entry = JournalEntry.objects.latest("id")
    assert (entry.actor.startswith("key "), entry.via, entry.reason) == (True, "api", "no reason given")


def test_a_mode_whose_time_is_over_stands_no_more(api, gate, capsys):
    """Also where no monitor has come round to write that down."""
    now_ms = redis_now_ms(gate)
    for scope, mode in (("*", "saturated"), ("bulk", "draining")):
        gate.set_mode(scope, mode, by="o", reason="r", until_at_ms=now_ms - 1)
    assert api.get("/mode").json()["mode"] == "normal"
    assert api.get("/mode").json()["queues"] == {}
    assert api.get("/mode?queue=bulk").json()["mode"] == "normal"
    assert api.post("/jobs", {"task": "drill.echo", "args": [1], "queue": "bulk"}).status_code == 202
    call_command("mode", "show")
    assert "draining" not in capsys.readouterr().out


def test_a_mode_of_an_unknown_queue_is_404(api):
    assert api.put("/mode", {"mode": "draining", "queue": "nowhere"}).status_code == 404


def test_until_takes_iso_8601(api):
    answer = api.put("/mode", {"mode": "saturated", "until": "2099-01-01T00:00:00Z"})
    assert answer.json()["until_at_ms"] == 4_070_908_800_000


def test_a_policy_changes_by_version_and_is_published(api, gate):
    answer = api.put("/policies/bulk", {"max_count": 9, "reason": "smaller"})
    assert (answer.json()["version"], answer.json()["max_count"]) == (2, 9)
    assert gate.read_policies()["bulk"]["max_count"] == 9
    assert PolicyVersion.objects.filter(queue="bulk").count() == 2
    assert api.put("/policies/bulk", {"max_count": 8, "version": 1}).status_code == 409
    whole = api.get("/policies/bulk").json()
    assert api.put("/policies/bulk", whole).json()["version"] == 2  # nothing changed, nothing written
    assert [row["version"] for row in whole["history"]] == [2, 1]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"max_count": -1}, "max_count"),
        ({"max_count": 1.5}, "max_count"),
        ({"max_count": True}, "max_count"),
        ({"weight": 0}, "weight"),
        ({"on_full": "explode"}, "on_full"),
        ({"low_mark": 0.95}, "low_mark"),
        ({"order": "lifo", "max_age_s": 5}, "order"),
        ({"no_such_field": 1}, "no_such_field"),
        ({"rate_limits": [{"per": "tenant"}]}, "rate_limits[0].limit"),
        ({"rate_limits": [{"per": "moon", "limit": 1, "window_s": 1}]}, "rate_limits[0].per"),
        (
            {"rate_limits": [{"per": "key", "kind": "fixed_window", "limit": 1, "window_s": 1, "burst": 2}]},
            "rate_limits[0].burst",
        ),
        ({"rate_limits": [{"per": "key", "limit": 1, "window_s": 1}] * 2}, "rate_limits[1]"),
        ({"rate_limits": [{"per": "key", "limit": 10**9, "window_s": 86400}]}, "rate_limits[0].window_s"),
        ({"downstream": "mail"}, "downstream"),
        ({"weight": 10**400}, "weight"),
        ({"max_count": -(10**400)}, "max_count"),
        ({"fields": 5}, "fields"),
        ({"fields": {"weight": 0}}, "weight"),
        ({"waiting_room_max": 5, "on_full": "spill", "spill_max_count": 5}, "waiting_room_max"),
        ({"on_full": "spill"}, "spill_max_count"),
        ({"on_full": "degrade", "degrade_to": "t", "degrade_queue": "bulk"}, "degrade_queue"),
        ({"objective_s": 5}, "objective_s"),
        ({"guard_age_s": 50_000, "age_ceiling_s": 1}, "guard_age_s"),
    ],
)
def test_a_policy_that_cannot_hold_is_refused(api, gate, body, field):
    for query in ("", "?dry_run=true"):
        answer = api.put(f"/policies/bulk{query}", body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert gate.read_policies()["bulk"]["version"] == 1


def test_a_dry_run_says_what_would_stand_and_changes_nothing(api, gate):
    answer = api.put("/policies/bulk?dry_run=true", {"max_count": 9, "version": 1})
    assert (answer.status_code, answer.json()["max_count"]) == (200, 9)
    assert api.put("/policies/bulk?dry_run=true", {"max_count": 9, "version": 7}).status_code == 409
    assert gate.read_policies()["bulk"]["version"] == 1
    assert PolicyVersion.objects.filter(queue="bulk").count() == 1


def test_only_an_admin_makes_a_queue(api, admin_api, gate):
    assert api.put("/policies/reports", {"max_count": 5}).status_code == 404
    assert admin_api.put("/policies/reports", {"max_count": 5}).status_code == 200
    assert gate.read_policies()["reports"]["max_count"] == 5


def test_the_contract_says_what_the_policy_says(api):
    contract = api.get("/contracts/critical").json()
    assert contract["bounds"]["max_count"] == 1000
    assert set(contract) >= {
        "acceptance",
        "completion",
        "ordering",
        "bounds",
        "backpressure",
        "cancellation",
        "recovery",
        "observability",
    }
    assert api.get("/contracts/nowhere").status_code == 404


def test_replay_marks_each_job_once(admin_api, held):
    first = admin_api.post("/quarantine/replay", {"filter": {"queue": "normal"}, "rate_per_s": 20})
    again = admin_api.post("/quarantine/replay", {"filter": {"queue": "normal"}, "rate_per_s": 20})
    assert (first.json()["total"], again.json()["total"]) == (6, 0)
    assert again.json()["state"] == "done"
    assert held.filter(state="replaying").count() == 6
    batch = admin_api.get(first.json()["status_url"].removeprefix("/api/v1")).json()
    assert (batch["left"], len(batch["items"])) == (6, 6)


def test_a_batch_tells_what_became_of_what_it_readmitted_and_later_ones_are_judged_by_it(
    admin_api, gate, held
):
    echo = {"task": "drill.echo", "args": [1], "queue": "normal"}
    new = [admin_api.post("/jobs", echo).json()["operation_id"] for _ in range(3)]
    for job, outcome in zip(gate.claim("w", ["normal"], 2), ("succeeded", "failed"), strict=True):
        error = {"type": "E", "message": "m"} if outcome == "failed" else None
        gate.settle([Settlement(job.id, job.epoch, outcome, error=error)])
    new += [
        "job-5",
        "gone",
    ]  # of an expired record quarantine knows that it failed; of the other nothing is known
    batch = admin_api.post("/quarantine/replay", {"ids": [f"job-{i}" for i in range(5)]}).json()
    for i, new_id in enumerate(new):
        ReplayItem.objects.filter(job__op_id=f"job-{i}").update(state=ReplayItem.DONE, new_id=new_id)
        held.filter(op_id=f"job-{i}").update(state="replayed", replayed_as=new_id)
    told = admin_api.get(f"/batches/{batch['id']}").json()["outcomes"]
    assert told == {"of": 5, "succeeded": 1, "failed": 2, "open": 1, "other": 0, "unknown": 1}

    held.filter(op_id="job-2").update(
        replayed_as=edited_id("job-2")
    )  # other arguments: it says nothing of these
    before = admin_api.get("/quarantine/replays?fingerprint=f1&task=drill.fail").json()
    assert (before["cause"]["of"], before["cause"]["succeeded"], before["cause"]["failed"]) == (2, 1, 1)
    assert (before["task"]["of"], before["task"]["failed"], before["task"]["unknown"]) == (4, 2, 1)
    assert admin_api.get("/quarantine/replays?fingerprint=new").json()["cause"]["of"] == 0
    assert admin_api.get("/quarantine/replays?fingerprint=new").json()["task"] is None


def test_a_text_that_a_database_cannot_keep_is_no_fault_of_ours(api, admin_api, gate):
    """PostgreSQL takes no NUL; what is refused for it changes nothing."""
    nul, half = "a\x00b", "%00"
    asked = (
        lambda: admin_api.put("/mode", {"mode": "saturated", "reason": nul}),
        lambda: admin_api.put("/policies/bulk", {"weight": 7, "owner": nul, "reason": nul}),
        lambda: admin_api.put("/alerts/rules", {"name": nul, "measure": "depth", "threshold": 1}),
        lambda: admin_api.post("/keys", {"tenant": nul, "scopes": ["read"], "label": nul}),
        lambda: admin_api.post("/deletions", {"tag": nul, "reason": nul}),
        lambda: admin_api.post("/tenants/a%00b/suspend", {"reason": nul}),
        lambda: admin_api.post("/quarantine/replay", {"ids": [nul]}),
        lambda: admin_api.post("/quarantine/discard", {"filter": {"task": nul}}),
        lambda: admin_api.get(f"/quarantine?task={half}&search={half}"),
        lambda: admin_api.get(f"/quarantine/{half}"),
        lambda: admin_api.get(f"/journal?search={half}"),
        lambda: admin_api.get(f"/deletions?tag={half}"),
        lambda: admin_api.get(f"/policies/{half}"),
        lambda: admin_api.get(f"/downstreams/{half}"),
        lambda: admin_api.delete(f"/jobs/{half}"),
        lambda: api.client.post("/login/", {"username": nul, "password": nul}),
        lambda: api.client.put(f"/api/v1/policies/{half}", "{}"),
        lambda: api.client.post(f"/api/v1/tenants/{half}/suspend", "{}", content_type="application/json"),
    )
    for ask in asked:
        with transaction.atomic():  # the test's own transaction outlives the one that fails
            answer = ask()
        assert answer.status_code < 500, answer.content
        if answer.status_code == 422 and answer.json()["reason"] == "invalid":
            assert answer.json()["detail"]
    in_force = gate.read_modes()["*"]["mode"] == "saturated"
    assert in_force == (Transition.objects.filter(after="saturated").exists())


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"since_ms": "yesterday"}, "filter.since_ms"),
        ({"until_ms": True}, "filter.until_ms"),
        ({"task": ["a", "b"]}, "filter.task"),
        ({"search": "x" * 301}, "filter.search"),
        ({"colour": "red"}, "filter.colour"),
        ({"state": "hold"}, "filter.state"),
        ({"reason": "bad luck"}, "filter.reason"),
        ({"payload_class": "top"}, "filter.payload_class"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_and_kept_nowhere(admin_api, held, wanted, field):
    for verb in ("replay", "discard"):
        answer = admin_api.post(f"/quarantine/{verb}", {"filter": wanted})
        assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert not ReplayBatch.objects.exists()
    assert held.filter(state="held").count() == 6
    assert admin_api.get(f"/quarantine?search={'x' * 301}").json()["field"] == "search"
    for name in ("state", "reason", "payload_class"):
        assert admin_api.get(f"/quarantine?{name}=nosuch").json()["field"] == name
    assert admin_api.get("/quarantine?state=all&reason=failed").json()["count"] == 6


def test_replay_by_id_says_which_are_not_held(admin_api, held):
    answer = admin_api.post("/quarantine/replay", {"ids": ["job-1", "job-1", "gone"]}).json()
    assert (answer["total"], answer["skipped"], answer["left"]) == (2, 1, 1)


def test_a_job_past_its_moment_needs_an_override(admin_api, held):
    held.filter(op_id="job-1").update(replay_until_at_ms=1_700_000_000_000)
    answer = admin_api.post("/quarantine/replay", {"ids": ["job-1"]}).json()
    assert (answer["skipped"], answer["state"]) == (1, "done")
    assert held.get(op_id="job-1").state == "held"
    answer = admin_api.post("/quarantine/replay", {"ids": ["job-1"], "override_expired": True}).json()
    assert answer["left"] == 1


def test_a_stopped_replay_gives_back_what_it_had_not_done(admin_api, held):
    batch = admin_api.post("/quarantine/replay", {"filter": {}}).json()
    path = f"/batches/{batch['id']}"
    assert admin_api.put(path, {"state": "paused"}).json()["state"] == "paused"
    stopped = admin_api.put(path, {"state": "stopped"}).json()
    assert (stopped["state"], stopped["left"]) == ("stopped", 0)
    assert held.filter(state="held").count() == 6
    assert admin_api.put(path, {"state": "running"}).status_code == 409
    assert admin_api.get(f"/batches/{uuid.uuid4()}").status_code == 404


def test_a_tenant_replays_and_sees_its_own_jobs_only(api, held):
    seen = api.get("/quarantine").json()
    assert (seen["count"], {job["tenant"] for job in seen["jobs"]}) == (3, {"default"})
    assert api.get("/quarantine/job-1").status_code == 404
    assert api.post("/quarantine/replay", {"filter": {}}).json()["total"] == 3
    assert held.filter(tenant="other", state="held").count() == 3


def test_discarded_jobs_are_not_replayed(admin_api, held):
    assert (
        admin_api.post("/quarantine/discard", {"ids": ["job-0"], "reason": "test data"}).json()["done"] == 1
    )
    assert admin_api.post("/quarantine/replay", {"ids": ["job-0"]}).json()["left"] == 0
    assert ReplayBatch.objects.filter(verb="discard", reason="test data").exists()


def test_quarantine_pages_and_filters(admin_api, held):
    page = admin_api.get("/quarantine?limit=4").json()
    rest = admin_api.get(f"/quarantine?limit=4&before={page['next_before']}").json()
    assert [len(page["jobs"]), len(rest["jobs"]), rest["next_before"]] == [4, 2, None]
    assert admin_api.get("/quarantine?fingerprint=f1").json()["count"] == 3
    assert admin_api.get("/quarantine?search=script").json()["count"] == 6
    assert {c["fingerprint"] for c in page["causes"]} == {"f1", "f2"}
    assert (
        admin_api.post("/quarantine/replay", {"filter": {"password": "x"}}).json()["field"]
        == "filter.password"
    )


def test_a_misspelt_queue_does_not_look_as_if_nothing_were_held(admin_api, api, held):
    answer = admin_api.get("/quarantine?queue=nromal")
    assert (answer.status_code, answer.json()["field"]) == (422, "queue")
    assert admin_api.get("/quarantine?queue=bulk").json()["count"] == 0
    held.filter(op_id="job-1").update(queue="gone", state="discarded")  # a queue that has no policy any more
    assert admin_api.get("/quarantine?queue=gone").status_code == 200
    assert api.get("/quarantine?queue=gone").status_code == 422  # another tenant's alone


def test_a_held_payload_is_shown_as_text_and_never_unpickled(admin_api, held):
    shown = admin_api.get("/quarantine/job-1").json()
    assert "text" not in shown["payload"]
    revealed = admin_api.post("/jobs/job-1/reveal", {"reason": "look"}).json()
    assert revealed["payload"]["text"] == "\\x80\x04pickled \\xff{{7*7}}"
    assert shown["message"] == "<script>alert(1)</script>"


def test_a_job_that_redis_forgot_is_read_from_quarantine(admin_api, held):
    job = admin_api.get("/jobs/job-1").json()
    assert (job["status"], job["quarantined"], job["error"]["type"]) == ("failed", True, "ValueError")
    assert job["quarantine"] == "held"


@pytest.mark.parametrize(
    ("state", "is_held"), [("held", True), ("replaying", True), ("replayed", False), ("discarded", False)]
)
def test_a_job_that_has_left_quarantine_is_not_said_to_be_in_it(api, gate, held, state, is_held):
    said = api.post("/jobs", {"task": "drill.echo", "args": [1]}).json()
    claimed = gate.claim("w", ["normal"])[0]
    gate.settle([Settlement(claimed.id, claimed.epoch, "failed", error={"type": "E", "message": "m"})])
    path = f"/jobs/{said['operation_id']}"
    job = api.get(path).json()
    assert (job["quarantined"], job["quarantine"]) == (True, "held")  # nobody has recorded it yet
    held.filter(op_id="job-0").update(op_id=claimed.id, state=state)
    job = api.get(path).json()
    assert (job["quarantined"], job["quarantine"]) == (is_held, state)


def test_alerts_are_acknowledged_once_and_snoozed(api, gate):
    rule = AlertRule.objects.get(name="bulk-age")
    alert = Alert.objects.create(rule=rule, queue="bulk", fired_at_ms=1, value=5, threshold=1)
    assert api.get("/alerts?state=firing").json()["firing"] == 1
    first = api.post(f"/alerts/{alert.pk}/acknowledge", {"note": "on it"})
    assert first.status_code == 200 and first.json()["acknowledged_by"]
    api.post(f"/alerts/{alert.pk}/acknowledge")
    assert JournalEntry.objects.filter(verb="acknowledge_alert", outcome="done").count() == 1
    assert api.post(f"/alerts/{alert.pk}/snooze", {"for_s": 600}).status_code == 200
    assert api.post(f"/alerts/{alert.pk}/snooze", {}).json()["field"] == "until"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"measure": "luck"}, "measure"),
        ({"threshold": -1}, "threshold"),
        ({"threshold": "9"}, "threshold"),
        ({"clear_threshold": 1e9}, "clear_threshold"),
        ({"severity": "loud"}, "severity"),
        ({"enabled": 1}, "enabled"),
        ({"targets": ["http://127.0.0.1:6379/"]}, "targets[0]"),
        ({"targets": ["http://169.254.169.254/latest"]}, "targets[0]"),
        ({"targets": ["file:///etc/passwd"]}, "targets[0]"),
        ({"targets": ["nonsense"]}, "targets[0]"),
        ({"reason": 5}, "reason"),
        ({"remove": "yes"}, "remove"),
        ({"targets": ["http://[::1"]}, "targets[0]"),
        ({"targets": ["http://example.com:99999/"]}, "targets[0]"),
        ({"targets": [5]}, "targets[0]"),
        ({"targets": 5}, "targets"),
        ({"targets": {"a": 1}}, "targets"),
        ({"threshold": 10**400}, "threshold"),
        ({"for_s": 1e300}, "for_s"),
        ({"measure": ["depth"]}, "measure"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused(api, settings, changes, field):
    settings.SLUICEGATE_ALERT_HOSTS = []
    answer = api.put("/alerts/rules", {"name": "bulk-age", **changes})
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_target_is_kept_whole_and_shown_redacted(admin_api, api, gate):
    admin_api.put(
        "/alerts/rules",
        {"name": "bulk-age", "targets": ["https://user:secret@127.0.0.1:8443/hook?token=t0p"]},
    )
    shown = next(rule for rule in api.get("/alerts/rules").json()["rules"] if rule["name"] == "bulk-age")
    assert "secret" not in str(shown) and "t0p" not in str(shown)
    api.put("/alerts/rules", {**shown, "threshold": 900})
    rule = AlertRule.objects.get(name="bulk-age")
    assert rule.threshold == 900 and "secret" in rule.targets[0]
    assert "secret" not in str(list(JournalEntry.objects.values_list("before", "after")))


def test_a_removed_rule_stays_removed(api, gate):
    assert api.put("/alerts/rules", {"name": "bulk-age", "remove": True}).status_code == 200
    bootstrap.prepare_database()
    assert not AlertRule.objects.filter(name="bulk-age").exists()

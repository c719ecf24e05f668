"""Does a submitter see what became of an offer that a full queue answered otherwise than with a refusal?"""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command

from workers.models import JournalEntry, QuarantinedJob
from workers.store import Settlement, Store

ECHO = {"task": "drill.echo", "args": [1], "queue": "bulk"}


def change(api, **fields):
    answer = api.put("/policies/bulk", fields)
    assert answer.status_code == 200, answer.content


def submit(api, **fields):
    return api.post("/jobs", {**ECHO, **fields})


def look(api, answer):
    return api.get(answer.json()["status_url"].removeprefix("/api/v1")).json()


def bulk(gate: Store):
    return gate.snapshot()["queues"]["bulk"]


@pytest.mark.parametrize("on_full", ["drop_newest", "sample"])
def test_what_is_dropped_is_answered_as_shed_and_can_be_looked_up(api, key_for, gate: Store, on_full):
    change(api, max_count=1, on_full=on_full, sample_rate=0.0, high_mark=1.0)
    submit(api)
    dropped = submit(api)
    assert dropped.status_code == 202
    assert (dropped.json()["status"], dropped.json()["reason"]) == ("shed", "count")
    assert dropped.json()["accepted_at_ms"] is None
    job = look(api, dropped)
    assert (job["status"], job["refused_by"]) == ("shed", "count")
    other = key_for("submit", "read", tenant="other")
    assert other.get(f"/jobs/{dropped.json()['operation_id']}").status_code == 404
    assert api.delete(f"/jobs/{dropped.json()['operation_id']}").status_code == 404
    totals = bulk(gate)["totals"]
    assert (totals["offered"], totals["accepted"], totals["refused"], totals["shed"]) == (2, 1, 1, 0)
    said = api.post("/jobs/bulk", [ECHO, ECHO]).json()
    assert (said["accepted"], said["refused"]) == (0, 2)


def test_the_oldest_that_made_room_is_seen_as_shed(api, gate: Store):
    change(api, max_count=1, on_full="drop_oldest")
    first, second = submit(api), submit(api)
    assert [look(api, a)["status"] for a in (first, second)] == ["shed", "pending"]
    assert bulk(gate)["totals"]["shed"] == 1


def test_a_superseded_job_names_the_one_that_lives(api, gate: Store):
    change(api, max_count=1, on_full="coalesce", may_coalesce=True)
    first, second = submit(api, coalesce_key="k"), submit(api, coalesce_key="k")
    assert look(api, first)["superseded_by"] == second.json()["operation_id"]
    assert submit(api).status_code == 429
    claimed = gate.claim("w", ["bulk"])[0]
    assert claimed.id == second.json()["operation_id"]
    third = submit(api, coalesce_key="k")
    assert third.status_code == 202
    gate.settle([Settlement(claimed.id, claimed.epoch, "succeeded")])
    assert look(api, third)["status"] == "pending"


def test_a_key_where_nothing_may_coalesce_is_at_fault(api, gate: Store):
    refused = submit(api, coalesce_key="k")
    assert (refused.status_code, refused.json()["reason"], refused.json()["field"]) == (
        422,
        "coalescing",
        "coalesce_key",
    )
    assert bulk(gate)["totals"]["refused_by"] == {"coalescing": 1}


def test_a_stale_sequence_names_its_field_and_the_newest(api):
    assert submit(api, ordering_key="k", source_sequence=7).status_code == 202
    refused = submit(api, ordering_key="k", source_sequence=7)
    assert (refused.status_code, refused.json()["reason"], refused.json()["field"]) == (
        409,
        "duplicate",
        "source_sequence",
    )
    assert "newer source_sequence: 7" in refused.json()["detail"]


def test_a_degraded_job_says_what_was_asked_for(api, gate: Store):
    change(api, max_count=1, on_full="degrade", degrade_to="drill.sleep", degrade_queue="normal")
    submit(api)
    answer = submit(api)
    asked = {"task": "drill.echo", "queue": "bulk", "reason": "count"}
    assert answer.status_code == 202
    assert (answer.json()["queue"], answer.json()["degraded_from"]) == ("normal", asked)
    job = look(api, answer)
    assert (job["task"], job["queue"], job["degraded_from"]) == ("drill.sleep", "normal", asked)
    assert bulk(gate)["totals"]["degraded"] == 1
    change(api, degrade_queue=None, degrade_reserve=1.0)
    assert submit(api).json()["queue"] == "bulk"
    assert submit(api).status_code == 429


def test_a_spilled_job_says_so_waits_its_turn_and_can_be_cancelled(api, gate: Store):
    change(api, max_count=1, on_full="spill", spill_max_count=2)
    answers = [submit(api) for _ in range(4)]
    assert [a.status_code for a in answers] == [202, 202, 202, 429]
    assert "phase" not in answers[0].json()
    assert (answers[1].json()["status"], answers[1].json()["phase"]) == ("pending", "spilled")
    assert look(api, answers[1])["phase"] == "spilled"
    path = answers[2].json()["status_url"].removeprefix("/api/v1")
    assert api.delete(path).status_code == 200
    assert look(api, answers[2])["status"] == "cancelled"
    for wanted in answers[:2]:
        job = gate.claim("w", ["bulk"])[0]
        assert job.id == wanted.json()["operation_id"]
        gate.settle([Settlement(job.id, job.epoch, "succeeded")])


def test_a_deadline_that_cannot_be_met_is_told_with_the_modeled_wait(api, gate: Store):
    gate.publish_model("bulk", {"service_rate_per_s": 1.0, "work_rate": 1000.0, "seconds_to_drain": 12.0})
    refused = submit(api, deadline_s=5)
    assert (refused.status_code, refused.json()["reason"]) == (429, "deadline")
    assert "would wait 12.0 s (modeled) and has 5.0 s" in refused.json()["detail"]
    assert refused.json()["figures"] == {"value": 12000, "bound": 5000}
    assert submit(api, deadline_s=60).status_code == 202


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"on_full": "degrade"}, "degrade_to"),
        ({"on_full": "degrade", "degrade_to": "drill.echo"}, "degrade_reserve"),
        (
            {
                "on_full": "degrade",
                "degrade_to": "drill.echo",
                "degrade_reserve": 0.5,
                "degrade_queue": "normal",
            },
            "degrade_reserve",
        ),
        ({"degrade_queue": "bulk"}, "degrade_queue"),
        ({"degrade_queue": "nowhere"}, "degrade_queue"),
        ({"degrade_queue": "a|b"}, "degrade_queue"),
        ({"on_full": "spill"}, "spill_max_count"),
        ({"on_full": "spill", "spill_max_count": 0}, "spill_max_count"),
    ],
)
def test_an_outcome_without_bounds_of_its_own_is_refused(api, fields, at_fault):
    answer = api.put("/policies/bulk", fields)
    assert (answer.status_code, answer.json()["field"]) == (422, at_fault)


@pytest.mark.parametrize("name", ["a|b", "a:b", "-a", "a b", "a" * 101])
def test_a_name_that_the_keys_cannot_carry_is_refused(admin_api, name):
    assert admin_api.put(f"/policies/{name}", {"max_count": 1}).json()["field"] == "queue"


def test_the_order_in_which_queues_give_way_answers_what_if(api, gate: Store, frame):
    found = api.get("/shed-order").json()
    assert (found["mode"], [s["queue"] for s in found["steps"]]) == (
        "normal",
        ["bulk", "normal", "urgent", "critical"],
    )
    normal = found["steps"][1]
    assert (normal["now"]["fullest"], normal["now"]["gives_way"]) == ("count", False)
    assert found["steps"][0]["now"] is None and "now" in found["steps"][0]["unknown"]
    what_if = api.get("/shed-order?mode=saturated").json()
    assert [s["effect"] for s in what_if["steps"]] == ["closed", "narrowed", "bounded", "bounded"]
    assert (what_if["in_force"], what_if["steps"][1]["bounds"]["count"]) == ("normal", 10000)
    assert api.get("/shed-order?mode=strange").json()["field"] == "mode"


def test_the_command_line_says_it_too(gate: Store):
    out = StringIO()
    call_command("shed_order", "--mode", "saturated", stdout=out)
    assert "1. bulk: closed: every new offer is refused." in out.getvalue()
    out = StringIO()
    call_command("shed_order", "--json", stdout=out)
    assert set(json.loads(out.getvalue())) == {"normal", "saturated", "draining", "failed"}


def test_a_contract_says_how_to_test_it_and_what_was_measured(api, gate: Store, frame):
    change(api, max_count=7, on_full="spill", spill_max_count=3)
    contract = api.get("/contracts/bulk").json()
    assert contract["backpressure"]["spill_max_count"] == 3
    assert "go to the spill, up to 3 jobs" in contract["backpressure"]["statement"]
    assert any("never above 7" in test for test in contract["bounds"]["tests"])
    for part in ("acceptance", "ordering", "backpressure", "cancellation", "recovery", "observability"):
        assert contract[part]["tests"], part
    assert api.get("/contracts/normal").json()["completion"]["unknown"]
    part = {"attained": 0.99, "of": 100, "over_s": 3600, "burn_rate": {"5m": 1.0}}
    frame["queues"][0]["objective"] = part
    gate.put_frame(json.dumps(frame))
    completion = api.get("/contracts/normal").json()["completion"]
    assert completion["measured"] == {"attained": 0.99, "of": 100, "over_s": 3600}


def test_an_edit_replays_a_held_job_once_with_its_lineage(api, key_for, gate: Store):
    QuarantinedJob.objects.create(
        op_id="broken", task="drill.echo", queue="bulk", tenant="default", quarantined_at_ms=1, bytes=1
    )
    change(api, max_count=1)
    submit(api)
    assert submit(api, replay_of="broken").status_code == 429
    assert QuarantinedJob.objects.get().state == "held"
    change(api, max_count=9)
    answer = submit(api, replay_of="broken", args=["mended"])
    assert answer.status_code == 202
    new_id = answer.json()["operation_id"]
    assert look(api, answer)["replay_of"] == "broken"
    row = QuarantinedJob.objects.get()
    assert (row.state, row.replayed_as) == ("replayed", new_id)
    assert bulk(gate)["totals"]["replayed"] == 1
    assert submit(api, replay_of="broken").status_code == 409
    assert submit(api, replay_of="gone").json()["field"] == "replay_of"
    assert key_for("submit").post("/jobs", {**ECHO, "replay_of": "broken"}).status_code == 403
    assert JournalEntry.objects.filter(verb="replay", target="broken", outcome="done").count() == 1

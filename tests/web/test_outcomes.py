"""Does a submitter see what became of an offer that a full queue answered otherwise than with a refusal?"""

from __future__ import annotations

import pytest

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

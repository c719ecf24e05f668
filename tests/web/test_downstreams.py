"""Can a downstream be made, changed and removed by those who may, and is each change kept?"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command

from workers.actions import bootstrap
from workers.models import DownstreamVersion, JournalEntry
from workers.store import Store

pytestmark = pytest.mark.database


def make(admin_api: Any, **settings: Any) -> Any:
    return admin_api.put("/downstreams/bank", {"target_ms": 200, "reason": "contract", **settings})


def test_it_is_made_changed_and_removed_each_with_its_version_and_entry(
    admin_api: Any, api: Any, gate: Store
) -> None:
    made = make(admin_api)
    assert made.status_code == 200, made.content
    assert (made.json()["version"], made.json()["target_ms"], made.json()["max"]) == (1, 200, 100)
    assert gate.read_downstreams()["bank"]["target_ms"] == 200
    changed = api.put("/downstreams/bank", {**made.json(), "max": 8, "version": 1, "reason": "fewer"})
    assert changed.status_code == 200, changed.content
    assert gate.read_downstreams()["bank"]["max"] == 8
    assert api.put("/downstreams/bank", {"max": 9, "version": 1}).status_code == 409
    assert api.delete("/downstreams/bank?reason=gone").status_code == 200
    assert api.get("/downstreams/bank").status_code == 404
    assert api.get("/downstreams").json()["downstreams"] == []
    assert gate.read_downstreams() == {}
    entries = JournalEntry.objects.filter(verb="change_downstream", outcome="done").order_by("id")
    assert [entry.after for entry in entries][1:] == [
        {"max": 8, "version": 2},
        {"version": 3, "removed": True},
    ]
    # Its versions go on where they ended.
    assert make(admin_api).json()["version"] == 4
    assert [row["fields"] is None for row in api.get("/downstreams/bank").json()["history"]] == [
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [({"kind": "x"}, "kind"), ({"max": 0}, "max"), ({"min": 5, "max": 4}, "min"), ({"extra": 1}, "extra")],
)
def test_what_cannot_hold_is_refused_by_its_field(admin_api: Any, body: dict[str, Any], field: str) -> None:
    answer = admin_api.put("/downstreams/bank", body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert not DownstreamVersion.objects.exists()


def test_who_may_not_is_refused_and_the_refusal_is_kept(
    api: Any, key_for: Callable[..., Any], logged_in: Callable[..., Any], admin_api: Any
) -> None:
    assert make(api).status_code == 404  # only an admin makes one
    make(admin_api)
    assert key_for("read").put("/downstreams/bank", {"max": 5}).status_code == 403
    assert logged_in("viewer").put("/downstreams/bank", {"max": 5}).status_code == 403
    assert logged_in("operator", token=False).put("/downstreams/bank", {"max": 5}).status_code == 403
    assert logged_in("operator").put("/downstreams/bank", {"max": 5}).status_code == 200
    refused = JournalEntry.objects.filter(outcome="refused").values_list("verb", "target")
    assert [row for row in refused if "downstream" in str(row)], list(refused)


def test_a_policy_names_only_a_downstream_that_there_is_and_holds_it(admin_api: Any, api: Any) -> None:
    answer = api.put("/policies/bulk", {"downstream": "bank", "reason": "r"})
    assert (answer.status_code, answer.json()["field"]) == (422, "downstream")
    make(admin_api)
    assert api.put("/policies/bulk", {"downstream": "bank", "reason": "r"}).status_code == 200
    held = api.delete("/downstreams/bank?reason=r")
    assert (held.status_code, held.json()["reason"]) == (409, "in_use")
    assert api.put("/policies/bulk", {"downstream": None, "reason": "r"}).status_code == 200
    assert api.delete("/downstreams/bank?reason=r").status_code == 200


def test_redis_gets_back_what_it_lost(admin_api: Any, gate: Store) -> None:
    make(admin_api)
    gate.client.flushall()
    assert bootstrap.restore_gate(gate).downstreams == ["bank"]
    assert gate.read_downstreams()["bank"]["version"] == 1
    assert not bootstrap.restore_gate(gate)


def test_the_command_line_makes_shows_and_removes_one(gate: Store) -> None:
    def said(*words: str) -> str:
        out = io.StringIO()
        call_command(*words, stdout=out)
        return out.getvalue()

    shown = said("downstream", "set", "bank", "--target-ms", "300", "--initial", "2", "--reason", "r")
    assert "bank\tv1\t0 of 2 in flight" in shown
    assert JournalEntry.objects.get(verb="change_downstream").via == "cli"
    assert said("downstream", "remove", "bank", "--reason", "r") == ""


def test_a_policy_takes_edf_caps_and_controlled_delay(api: Any, gate: Store) -> None:
    fields = {"order": "edf", "max_in_flight_per_task": {"drill.sleep": 2}}
    answer = api.put("/policies/bulk", {**fields, "codel_target_ms": 500, "codel_interval_ms": 2_000})
    assert answer.status_code == 200, answer.content
    assert gate.read_policies()["bulk"]["max_in_flight_per_task"] == {"drill.sleep": 2}
    for wrong, field in (
        ({"max_in_flight_per_task": {"t": 0}}, "max_in_flight_per_task.t"),
        ({"max_in_flight_per_task": [1]}, "max_in_flight_per_task"),
        ({"codel_target_ms": 5_000}, "codel_target_ms"),
        ({"codel_interval_ms": None}, "codel_target_ms"),
        ({"order": "random"}, "order"),
    ):
        refused = api.put("/policies/bulk", wrong)
        assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert api.get("/contracts/bulk").json()["ordering"]["order"] == "edf"

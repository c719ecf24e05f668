"""Does a 202 name the boundary that is in force, and does everybody say when it is not the one wished for?"""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from queues_ui.queries import durability
from workers.actions import gate as gate_module
from workers.store import Store

JOB = {"task": "drill.echo", "args": ["x"]}


def submit(api: Any) -> dict[str, Any]:
    durability._seen = (0.0, "unknown")  # a second later
    answer = api.post("/jobs", JOB)
    assert answer.status_code == 202
    found: dict[str, Any] = answer.json()
    return found


def test_a_202_names_what_the_server_does_at_that_time(api: Any, gate: Store) -> None:
    assert submit(api)["durability"] == "everysec"
    try:
        gate.client.config_set("appendfsync", "always")
        assert submit(api)["durability"] == "always"
        assert api.get("/contracts/normal").json()["acceptance"]["boundary"] == "always"
        gate.client.config_set("appendfsync", "no")
        assert submit(api)["durability"] == "memory"
    finally:
        gate.client.config_set("appendfsync", "everysec")


def test_a_copy_that_was_asked_for_and_not_had_is_told(api: Any, gate: Store, settings: Any) -> None:
    settings.SLUICEGATE_DURABILITY = "replica"
    gate_module.open_gate.cache_clear()
    said = submit(api)
    assert said["durability"] == "everysec"
    assert "No replica confirmed this within 400 ms. The job is accepted" in said["durability_note"]
    assert gate.read_operation(said["operation_id"]) is not None
    settings.SLUICEGATE_DURABILITY = "everysec"
    gate_module.open_gate.cache_clear()
    assert "durability_note" not in submit(api)


def test_a_wish_that_is_not_met_is_told_by_readyz_and_doctor(gate: Store, settings: Any) -> None:
    settings.SLUICEGATE_DURABILITY = "always"
    ready = Client().get("/readyz").json()
    assert (ready["ready"], ready["durability"]) == (True, "everysec")
    assert "set appendfsync always" in ready["durability_unmet"]
    out = io.StringIO()
    with pytest.raises(CommandError):
        call_command("doctor", stdout=out)
    assert "fault durability SLUICEGATE_DURABILITY is always" in out.getvalue()
    settings.SLUICEGATE_DURABILITY = "everysec"
    assert "durability_unmet" not in Client().get("/readyz").json()

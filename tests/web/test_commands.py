"""Can an operator see and change the gate without a browser?"""

from __future__ import annotations

import io
import json
import re
import socket
from typing import Any

import msgpack
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from workers.management.commands import up
from workers.models import JournalEntry
from workers.store import Offer, Store

pytestmark = pytest.mark.database


def said(*words: str, **options: Any) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out, **options)
    return out.getvalue()


def test_a_mode_set_from_the_command_line_is_in_force_and_journaled(gate: Store) -> None:
    shown = said("mode", "set", "draining", "--queue", "bulk", "--reason", "deploy", "--until", "drained")
    assert "bulk\tdraining" in shown
    mode = gate.read_modes()["bulk"]
    assert (mode["mode"], mode["until"], mode["reason"]) == ("draining", "drained", "deploy")
    entry = JournalEntry.objects.filter(verb="set_mode").latest("id")
    assert (entry.target, entry.via, entry.reason) == ("bulk", "cli", "deploy")


def test_a_mode_that_makes_no_sense_is_refused_in_words(gate: Store) -> None:
    with pytest.raises(CommandError, match="no queue 'nope'"):
        said("mode", "set", "draining", "--queue", "nope", "--reason", "r")


@pytest.mark.parametrize(
    "words",
    [
        ["mode", "set", "draining"],
        ["policy", "set", "bulk", "max_count=5"],
        ["downstream", "set", "bank"],
        ["privacy", "delete", "--tag", "t"],
        ["tenant", "suspend", "t"],
    ],
)
def test_a_blank_reason_is_none(gate: Store, words: list[str]) -> None:
    with pytest.raises(CommandError, match=r"(?i)say why"):
        said(*words, "--reason", " ")
    assert not JournalEntry.objects.filter(via="cli", outcome="done").exclude(actor="installation").exists()


def test_a_tenant_that_nobody_knows_is_suspended_and_said_to_be_unknown(gate: Store) -> None:
    gate.admit([Offer(id="a", task="t", queue="bulk", payload=b"{}", tenant="known")])
    assert said("tenant", "suspend", "known", "--reason", "r").strip() == "suspended, held: 1 jobs"
    assert "not seen" not in said("tenant", "suspend", "default", "--reason", "r")  # it has a key
    assert "held: 0 jobs; not seen so far" in said("tenant", "suspend", "nosuch", "--reason", "r")
    assert "nosuch" in gate.read_suspended()


def test_a_policy_is_listed_shown_and_set_from_the_command_line(gate: Store) -> None:
    assert "bulk\tv1\tby installation\t" in said("policy", "list")
    limit = {"per": "tenant", "limit": 3, "window_s": 30}
    words = ["max_count=9", "owner=nightly team", f"rate_limits=[{json.dumps(limit)}]"]
    done = said("policy", "set", "bulk", *words, "--reason", "smaller nights")
    assert re.search(r"^bulk\tv2$", done, re.MULTILINE)
    assert re.search(r"^  max_count\t\d+ -> 9$", done, re.MULTILINE)
    assert "  owner\tnone -> nightly team" in done
    assert (gate.read_policies()["bulk"]["max_count"], gate.read_policies()["bulk"]["version"]) == (9, 2)
    entry = JournalEntry.objects.filter(verb="change_policy").latest("id")
    assert (entry.target, entry.via, entry.reason) == ("bulk", "cli", "smaller nights")
    assert "  max_count\t9 -> none" in said("policy", "set", "bulk", "max_count=none", "--reason", "r")
    assert said("policy", "set", "bulk", "max_count=null", "--reason", "r") == "bulk\tv3\tas it was\n"
    shown = said("policy", "show", "bulk")
    assert "  max_count\tnone" in shown and '"window_s": 30' in shown


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["bulk", "max_count=-1"], "max_count: must be at least 1"),
        (["bulk", "max_cuont=1"], "max_cuont: is not a field of a policy; the fields are"),
        (["bulk", "on_full=explode"], "on_full: must be one of reject"),
        (["bulk", "weight=none"], "weight: must be a number"),
        (["bulk", "order=lifo", "max_age_s=5"], "set max_age_s to null"),
        (["bulk", "max_count"], "'max_count' is not FIELD=VALUE"),
        (["bulk", "max_count="], "FIELD=null unsets"),
        (["bulk", "weight=1", "weight=2"], "given twice"),
        (["bulk", "weight=NaN"], "weight: must be a number, not nan"),
        (["bulk", "weight=1" + "0" * 400], "weight: must be more than 0"),
        (["bulk", r'owner="\ud800"'], "owner: holds half a character"),
        (["bulk", r'max_in_flight_per_task={"a\ud800": 1}'], "max_in_flight_per_task: holds half"),
        (["bulk", r'degrade_to="\udfff"'], "degrade_to: holds half"),
        (["blk", "max_count=5"], r"no queue 'blk' with a policy \(known: bulk.*--new"),
        (["bulk", "max_count=5", "--new"], "at version 1 by now"),
    ],
)
def test_a_policy_that_cannot_hold_is_told_by_field_and_fix(gate: Store, words, fault) -> None:
    with pytest.raises(CommandError, match=fault):
        said("policy", "set", *words, "--reason", "r")
    assert gate.read_policies()["bulk"]["version"] == 1 and "blk" not in gate.read_policies()


def test_a_new_queue_is_made_when_it_is_said_to_be_one(gate: Store) -> None:
    said("policy", "set", "reports", "max_count=5", "--new", "--reason", "r")
    assert gate.read_policies()["reports"]["max_count"] == 5


def test_the_sink_stays_where_it_was_for_as_long_as_anything_waits(gate: Store, tmp_path, settings) -> None:
    (tmp_path / "run").mkdir()
    command = up.Command()
    command.data_dir = tmp_path
    settings.SLUICEGATE_DEMO = False
    assert command._choose_sink_port() is None
    settings.SLUICEGATE_DEMO = True
    port = command._choose_sink_port()
    assert port == command._choose_sink_port()
    gate.admit([Offer(id="left", task="webhooks.deliver", queue="bulk", payload=b"{}", delay_ms=60_000)])
    settings.SLUICEGATE_DEMO = False
    assert command._choose_sink_port() == port
    gate.cancel("left", by="test")
    assert command._choose_sink_port() is None
    gate.admit([Offer(id="own", task="t", queue="bulk", payload=b"{}")])
    assert command._choose_sink_port() is None, "what comes after is no demonstration's"
    settings.SLUICEGATE_DEMO = True
    port = command._choose_sink_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        assert command._choose_sink_port() not in (None, port)


def test_the_doctor_finds_a_sound_installation_sound(gate: Store) -> None:
    gate.admit([Offer(id="a", task="t", queue="normal", payload=b"{}")])
    found = said("doctor")
    assert "normal: counters agree with a recount" in found
    assert "normal has 1 waiting and no live consumer" in found
    assert "fault " not in found


def test_the_doctor_finds_a_counter_that_lies_and_a_redis_that_evicts(gate: Store) -> None:
    gate.client.set(f"{gate.root}totals:normal", msgpack.packb({"depth": 3}))
    gate.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        out = io.StringIO()
        with pytest.raises(CommandError, match="2 of"):
            call_command("doctor", stdout=out)
        assert "'depth': (3, 0)" in out.getvalue()
        assert "set noeviction" in out.getvalue()
    finally:
        gate.client.config_set("maxmemory-policy", "noeviction")

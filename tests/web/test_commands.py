"""Can an operator see and change the gate without a browser?"""

from __future__ import annotations

import io
from typing import Any

import msgpack
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

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

"""Does the simulation do what the scripts do, the same each time, and say what it found?"""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from workers.simulate import SteppedStore
from workers.simulate.clock import _stepped
from workers.simulate.compare import Load, run_trial
from workers.store import Store, scripts

LOAD = Load(per_s=30, service_ms=100, slots=2, seconds=6, deadline_s=2.0)


def test_the_same_load_under_the_same_policy_ends_the_same(redis_url: str) -> None:
    store = SteppedStore.from_url(redis_url, "simulated")
    first, second = (run_trial(store, "a", {"max_count": 10}, LOAD) for _ in range(2))
    assert first == second
    assert (
        first.offered
        == first.refused + first.done + first.expired + store.snapshot()["queues"]["normal"]["depth"] + 2
    )
    assert run_trial(store, "b", {"max_count": 5}, LOAD).refused > first.refused
    store.client.close()


def test_a_simulation_leaves_other_gates_alone(redis_url: str) -> None:
    live, simulated = Store.from_url(redis_url), SteppedStore.from_url(redis_url, "simulated")
    live.publish_policy("normal", {"max_count": 3}, version=7)
    run_trial(simulated, "a", {}, LOAD)
    simulated.clear()
    assert live.read_policies()["normal"]["version"] == 7
    assert {key.split(b"}")[0] for key in live.client.scan_iter()} == {b"sluicegate:{main"}
    live.client.close()
    simulated.client.close()


@pytest.mark.parametrize("name", sorted(path.stem for path in scripts.LUA_DIR.glob("*.lua")))
def test_every_script_can_be_told_the_time(name: str) -> None:
    text, _ = _stepped(name)
    assert "redis.call('TIME')" not in text


def test_the_command_compares_the_policies_that_are_named() -> None:
    out = io.StringIO()
    given = (
        "--seconds=3",
        "--offered=20",
        "--json",
        "--policy",
        'few={"max_count": 1}',
        "--policy",
        "all={}",
    )
    call_command("simulate", *given, stdout=out)
    found = {trial["name"]: trial for trial in json.loads(out.getvalue())["trials"]}
    assert found["few"]["refused"] > found["all"]["refused"] == 0
    with pytest.raises(CommandError, match="max_count"):
        call_command("simulate", "--policy", 'x={"max_count": 0}', stdout=out)

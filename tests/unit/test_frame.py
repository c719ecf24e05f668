"""Does a frame keep its shape, and is every null explained?"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from tests.unit.frame_schema import FRAME
from tests.unit.snapshot_maker import POLICY, START_MS, Plant, make_queue, make_snapshot, make_worker
from workers.forecast.verdict import give_verdict
from workers.loops.frame.build import build_frame
from workers.loops.frame.inputs import Context, DatabaseFacts, Memory
from workers.loops.frame.tenants import find_offerers
from workers.metrics.history import History
from workers.store.bins import bin_value_ms

OK = {"state": "ok", "detail": "", "since_at_ms": START_MS, "used_bytes": 10, "max_bytes": 100, "aof": True}
FACTS = DatabaseFacts(quarantine={"count": 0, "bytes": 0, "oldest_at_ms": None, "by_queue": {}, "causes": []})


def frame_of(history: History, *, redis: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return frame_and_memory(history, redis=redis, **more)[0]


def frame_and_memory(
    history: History,
    *,
    redis: dict[str, Any] | None = None,
    memory: Memory | None = None,
    facts: DatabaseFacts = FACTS,
) -> tuple[dict[str, Any], Memory]:
    context = Context(
        installation="test", gate="main", seq=1, bin_value=bin_value_ms, redis=redis or OK, facts=facts
    )
    return build_frame(history, context, memory or Memory())


def history_of(*snapshots: dict[str, Any]) -> History:
    history = History()
    for snapshot in snapshots:
        history.add(snapshot)
    return history


def unexplained(node: Any, path: str = "") -> Iterator[str]:
    """Paths of nulls that stand without a reason beside them; words (who, until what) need none."""
    if isinstance(node, list):
        for number, item in enumerate(node):
            yield from unexplained(item, f"{path}[{number}]")
    elif isinstance(node, dict):
        for name, value in node.items():
            if value is None and name not in node.get("unknown", {}):
                yield f"{path}.{name}"
            else:
                yield from unexplained(value, f"{path}.{name}")
    elif isinstance(node, float) and not math.isfinite(node):
        yield f"{path} is {node}"


WORDS = (
    "mode_by",
    "mode_leaves",
    "owner",
    "full_by",
    "policy",
    "version",
    "by_queue",
    "queue",
    "acknowledged_by",
)


def check(frame: dict[str, Any]) -> None:
    jsonschema_rs.validate(FRAME, json.loads(json.dumps(frame, allow_nan=False)))
    assert [path for path in unexplained(frame) if path.rsplit(".", 1)[-1] not in WORDS] == []


def busy_plant(seconds: int = 12) -> Plant:
    plant = Plant(service_ms=200, slots=2)
    plant.sample()
    plant.accept(500)
    plant.play(seconds)
    return plant


@pytest.mark.parametrize("seconds", [0, 1, 6, 12, 40, 55])
def test_every_frame_fits_the_schema_and_explains_its_nulls(seconds: int) -> None:
    check(frame_of(busy_plant(seconds).history))


def test_a_frame_without_queues_database_or_policy_fits_too() -> None:
    check(
        frame_of(
            history_of(make_snapshot(0, {})), redis={"state": "unknown"}, facts=DatabaseFacts(unknown="away")
        )
    )
    check(frame_of(history_of(make_snapshot(0, {"normal": make_queue()}, policies={}))))


def test_tenants_that_no_sample_looks_at_are_counted_and_make_a_fair_share_unknown() -> None:
    rows = [
        {
            **dict.fromkeys(("offered", "accepted", "refused", "started", "succeeded", "failed"), offered),
            **dict.fromkeys(("depth", "delayed", "in_flight", "bytes", "cost_ms"), 1),
            "queue": "normal",
            "tenant": name,
            "oldest_eligible_at_ms": None,
        }
        for name, offered in (("ann", 30), ("bob", 10))
    ]
    none = [{**row, **dict.fromkeys(("offered", "accepted"), 0)} for row in rows]
    known = {"depth": 2_000, "tenants_known": 2_000}
    before = make_snapshot(0, {"normal": make_queue(**known)}, tenants=none)
    totals = {"offered": 100, "accepted": 100}
    after = make_snapshot(5, {"normal": make_queue(**known, totals=totals)}, tenants=rows)
    frame = frame_of(history_of(before, after))
    check(frame)
    assert (len(frame["tenants"]), frame["tenants_left_out"]) == (2, 1_998)
    assert {row["fair_share"] for row in frame["tenants"]} == {None}
    assert "some of its tenants" in frame["tenants"][0]["unknown"]["fair_share"]
    # Ann's 30 of the 100 that all offered, not of the 40 that the rows shown did.
    assert find_offerers(frame["tenants"], {"normal": 20.0}) == {"normal": ("ann", 0.3)}


def test_a_tenant_that_comes_back_into_the_sample_has_no_rates_yet_and_a_new_one_has() -> None:
    counted = ("offered", "accepted", "refused", "started", "succeeded", "failed")
    row = {
        **dict.fromkeys(("depth", "delayed", "in_flight", "bytes", "cost_ms"), 1),
        **dict.fromkeys(counted, 5_000),
        "queue": "normal",
        "tenant": "ann",
        "oldest_eligible_at_ms": None,
    }
    for known, rate in ((2_000, None), (0, 1_000.0)):
        queue = make_queue(depth=1, tenants_known=known)
        before = make_snapshot(0, {"normal": queue}, tenants=[])
        after = make_snapshot(5, {"normal": queue}, tenants=[row])
        (found,) = frame_of(history_of(before, after))["tenants"]
        assert found["rates"]["offered"] == rate
        assert ("no row of it" in found["unknown"]["share"]) is (rate is None)


def test_a_tenants_oldest_is_unknown_while_some_of_its_jobs_stand_aside() -> None:
    row = {
        **dict.fromkeys(("offered", "accepted", "refused", "started", "succeeded", "failed"), 3),
        **dict.fromkeys(("depth", "delayed", "in_flight", "bytes", "cost_ms", "parked"), 1),
        "queue": "normal",
        "tenant": "ann",
        "oldest_eligible_at_ms": START_MS - 5000,
    }
    frame = frame_of(history_of(make_snapshot(0, {"normal": make_queue(depth=1)}, tenants=[row])))
    check(frame)
    (found,) = frame["tenants"]
    assert found["oldest_age_ms"] is None and "stand aside" in found["unknown"]["oldest_age_ms"]


def test_tenants_and_workers_fit_and_say_silent_when_silent() -> None:
    tenant = {
        **dict.fromkeys(("offered", "accepted", "refused", "started", "succeeded", "failed"), 3),
        **dict.fromkeys(("depth", "delayed", "in_flight", "bytes", "cost_ms"), 1),
        "queue": "normal",
        "tenant": "ann",
        "oldest_eligible_at_ms": START_MS - 5000,
    }
    many = [{**tenant, "tenant": f"small-{number}", "depth": 0, "in_flight": 0} for number in range(60)]
    snapshot = make_snapshot(0, {"normal": make_queue(depth=1)}, tenants=[*many, tenant])
    snapshot["workers"][0] |= {"beat_at_ms": START_MS - 20_000, "pid": None}
    snapshot["workers"][0]["held"] = [{"id": "x", "queue": "normal", "task": "t", "started_at_ms": None}]
    frame = frame_of(history_of(snapshot))
    check(frame)
    assert (len(frame["tenants"]), frame["tenants_left_out"]) == (50, 11)
    assert frame["tenants"][-1]["tenant"] == "ann"
    assert frame["tenants"][-1]["oldest_age_ms"] == 5000
    assert frame["tenants"][-1]["fair_share"] == 1
    assert (frame["workers"][0]["state"], frame["workers"][0]["beat_ago_ms"]) == ("silent", 20_000)


def test_an_empty_queue_has_age_zero_and_is_well() -> None:
    frame = frame_of(history_of(make_snapshot(0, {"normal": make_queue()})))
    assert frame["queues"][0]["oldest_age_ms"] == 0
    assert frame["queues"][0]["state"] == "in_bounds"
    assert frame["verdict"]["shape"] == "ring"


def test_only_delayed_jobs_are_no_age_and_no_backlog() -> None:
    queue = make_queue(delayed=2, bytes=300, next_due_at_ms=START_MS + 3_600_000)
    row = frame_of(history_of(make_snapshot(0, {"normal": queue})))["queues"][0]
    assert (row["oldest_age_ms"], row["drain"]["state"], row["state"]) == (0, "empty", "in_bounds")
    assert row["next_due_at_ms"] == START_MS + 3_600_000


def test_a_clock_ahead_of_redis_never_makes_an_age_negative() -> None:
    queue = make_queue(depth=1, oldest_eligible_at_ms=START_MS + 5000)
    assert frame_of(history_of(make_snapshot(0, {"normal": queue})))["queues"][0]["oldest_age_ms"] == 0


def test_past_the_guard_the_verdict_says_where_how_bad_and_what_comes() -> None:
    plant = busy_plant(35)
    frame = frame_of(plant.history)
    assert frame["queues"][0]["state"] == "past_guard"
    assert frame["verdict"]["shape"] == "triangle"
    headline = frame["verdict"]["headline"].replace("\u00a0", " ")
    assert headline.startswith("normal is past its guard and draining: oldest 35 s, guard 30 s, drains in 1")


@pytest.mark.parametrize(
    ("behind", "helps"),
    [
        ({}, "more workers help"),
        (
            {"service_ms": {"p50": 2500}},
            "a run takes 2.5\u00a0s (p50): if that is unusual look at what it calls",
        ),
        ({"set_aside": [{"downstream": "bank", "jobs": 4, "share": 0.25}]}, "more workers help"),
        ({"set_aside": [{"downstream": "bank", "jobs": 8, "share": 0.25}]}, "look at bank"),
        ({"downstream": "bank", "downstream_share": 0.25}, "look at bank"),
    ],
)
def test_where_a_downstream_holds_jobs_back_the_verdict_asks_for_no_workers(
    behind: dict[str, Any], helps: str
) -> None:
    row = frame_of(busy_plant(35).history)["queues"][0]
    row |= {"depth": 10, "drain": {"state": "growing", "seconds": None, "full_in_s": None}, **behind}
    verdict = give_verdict(
        [row],
        mode="saturated",
        mode_reason="",
        redis_state="ok",
        redis_detail="",
        offerers={},
        now_ms=START_MS + 35_000,
    )
    assert helps in verdict.lines[-1]
    assert ("more workers do not help" in verdict.lines[-1]) == (helps == "look at bank")


def test_no_consumer_is_stalled() -> None:
    queue = make_queue(depth=3, consumers=0, slots=0, cost_ms=300, oldest_eligible_at_ms=START_MS - 2000)
    frame = frame_of(history_of(make_snapshot(0, {"normal": queue}, slots=0)))
    check(frame)
    assert frame["queues"][0]["state"] == "stalled"
    assert "no consumer, 3 jobs wait" in frame["verdict"]["headline"]
    assert "Start a worker" in frame["verdict"]["lines"][-1]


def test_a_full_bound_is_at_its_bound() -> None:
    queue = make_queue(depth=1000, cost_ms=1000)
    row = frame_of(history_of(make_snapshot(0, {"normal": queue})))["queues"][0]
    assert (row["state"], row["full_bound"]) == ("at_bound", "count")


def test_no_room_for_one_more_job_of_the_usual_size_is_at_the_bound() -> None:
    policies = {"normal": {**POLICY, "max_cost_ms": 1050, "objective_s": 5.0, "objective_share": 0.9}}
    queue = make_queue(depth=10, cost_ms=1000)
    frame = frame_of(history_of(make_snapshot(0, {"normal": queue}, policies=policies)))
    check(frame)
    assert (frame["queues"][0]["state"], frame["queues"][0]["full_bound"]) == ("at_bound", "cost_ms")


def test_under_saturated_the_bounds_in_force_shrink_and_a_closed_queue_says_so() -> None:
    modes = {
        "*": {"mode": "saturated", "since_at_ms": START_MS, "by": "monitor", "automatic": True, "reason": "x"}
    }
    policies = {"normal": POLICY, "bulk": {**POLICY, "saturated_share": 0.0}}
    frame = frame_of(
        history_of(
            make_snapshot(0, {"normal": make_queue(), "bulk": make_queue()}, modes=modes, policies=policies)
        )
    )
    check(frame)
    rows = {row["name"]: row for row in frame["queues"]}
    assert rows["normal"]["bounds_in_force"]["count"] == 500
    assert rows["normal"]["bounds"]["count"] == 1000
    assert rows["bulk"]["state"] == "closed"
    assert frame["mode_automatic"]
    assert "low mark" in frame["mode_leaves"]


def headline_of(
    modes: dict[str, Any], totals: dict[str, dict[str, Any]], **rules: dict[str, Any]
) -> tuple[str, str]:
    """Shape and sentence five seconds after nothing was offered; `totals` are of those five."""
    verdict = verdict_of(modes, totals, **rules)
    return verdict["shape"], verdict["headline"].replace("\u00a0", " ")


def verdict_of(
    modes: dict[str, Any], totals: dict[str, dict[str, Any]], **rules: dict[str, Any]
) -> dict[str, Any]:
    names = ("urgent", "normal", "bulk")
    policies = {name: {**POLICY, **rules.get(name, {})} for name in names}
    before = make_snapshot(0, {name: make_queue() for name in names}, modes=modes, policies=policies)
    queues = {name: make_queue(totals=totals.get(name, {})) for name in names}
    frame = frame_of(history_of(before, make_snapshot(5, queues, modes=modes, policies=policies)))
    check(frame)
    verdict: dict[str, Any] = frame["verdict"]
    return verdict


REFUSED = {"bulk": {"offered": 32, "refused": 32, "refused_by": {"mode": 32}}}
CLOSES = {"bulk": {"saturated_share": 0.0}}
BY_HAND = {"since_at_ms": START_MS, "by": "ann", "automatic": False, "reason": "a deploy"}
BY_ITSELF = {"since_at_ms": START_MS, "by": "monitor", "automatic": True, "reason": "old"}


@pytest.mark.parametrize(
    ("modes", "said"),
    [
        (
            {"*": {"mode": "saturated", **BY_HAND}},
            "Saturated, set by ann: bulk is closed and refuses 6.4 jobs/s; the rest is in bounds.",
        ),
        (
            {"*": {"mode": "saturated", **BY_ITSELF}},
            "Saturated, entered by itself: bulk is closed and refuses 6.4 jobs/s; the rest is in bounds.",
        ),
        (
            {"bulk": {"mode": "draining", **BY_HAND}},
            "bulk is closed by its own mode, draining, and refuses 6.4 jobs/s; the rest is in bounds.",
        ),
        (
            {"*": {"mode": "saturated", **BY_HAND}, "normal": {"mode": "draining", **BY_HAND}},
            "Saturated, set by ann: bulk is closed and refuses 6.4 jobs/s; "
            "normal is closed by its own mode, draining, and refuses nothing now; "
            "the other queue is in bounds.",
        ),
        (
            {"*": {"mode": "draining", **BY_HAND}},
            "Draining, nothing new is admitted: no job is left.",
        ),
    ],
)
def test_a_closed_queue_is_in_the_headline_with_what_it_refuses(modes: dict[str, Any], said: str) -> None:
    assert headline_of(modes, REFUSED, **CLOSES) == ("square", said)


def test_draining_says_what_it_costs_and_how_it_ends_where_anything_is_refused() -> None:
    modes = {"*": {"mode": "draining", **BY_HAND}}
    assert verdict_of(modes, {}, **CLOSES)["lines"] == []
    (line,) = verdict_of(modes, REFUSED, **CLOSES)["lines"]
    assert line == "It refuses 6.4\u00a0jobs/s; setting normal lets new work in again."


@pytest.mark.parametrize(
    ("state", "act"),
    [("full", "Raise its maxmemory"), ("readonly", "Look in its log"), ("timeout", "runs again")],
)
def test_where_redis_cannot_serve_the_verdict_says_what_mends_it(state: str, act: str) -> None:
    verdict = give_verdict(
        [], mode="failed", mode_reason="", redis_state=state, redis_detail="", offerers={}, now_ms=START_MS
    )
    assert act in verdict.lines[-1]


def test_draining_names_what_is_admitted_all_the_same() -> None:
    modes = {"*": {"mode": "draining", **BY_HAND}}
    _, said = headline_of(modes, {}, urgent={"admit_while_draining": True})
    assert said.startswith("Draining, only urgent is admitted:")


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        (
            {"offered": 50, "accepted": 5, "refused": 45, "refused_by": {"rate": 40, "tenant": 5}},
            "in bounds, but normal refuses 9.0 of 10.0 jobs/s (rate limit)",
        ),
        (
            {"offered": 5, "refused": 5, "refused_by": {"downstream": 5}},
            "in bounds, but normal refuses 1.0 jobs/s (its downstream)",
        ),
        (
            {"offered": 5, "accepted": 5, "shed": 5},
            "in bounds, but normal sheds 1.0 jobs/s of what it accepted",
        ),
        # What was wrong with the offers themselves, or came before the mode was left, is not the queue's.
        (
            {"offered": 10, "refused": 10, "refused_by": {"duplicate": 5, "mode": 5}},
            "in bounds",
        ),
    ],
)
def test_a_queue_that_turns_work_away_within_its_bounds_says_so(totals: dict[str, Any], said: str) -> None:
    assert headline_of({}, {"normal": totals}) == ("ring", f"All 3 queues are {said}; no job waits.")


def test_beside_a_queue_that_is_past_a_line_a_closed_one_is_named_too() -> None:
    modes = {"*": {"mode": "saturated", **BY_HAND}}
    policies = {"normal": POLICY, "bulk": {**POLICY, "saturated_share": 0.0}}
    old = make_queue(depth=3, oldest_eligible_at_ms=START_MS - 60_000)
    frame = frame_of(
        history_of(make_snapshot(0, {"normal": old, "bulk": make_queue()}, modes=modes, policies=policies))
    )
    assert frame["verdict"]["shape"] == "triangle"
    assert "bulk is closed." in " ".join(frame["verdict"]["lines"])


def test_a_redis_that_is_full_is_failed_after_three_seconds() -> None:
    snapshots = [make_snapshot(second, {"normal": make_queue()}) for second in range(5)]
    full = {**OK, "state": "full", "detail": "used memory is at maxmemory"}
    frame = frame_of(history_of(*snapshots[:2]), redis=full)
    assert frame["mode"] == "normal"
    frame = frame_of(history_of(*snapshots), redis=full)
    check(frame)
    assert frame["mode"] == frame["queues"][0]["mode"] == "failed"
    assert frame["verdict"]["shape"] == "diamond"


def test_the_wording_changes_with_a_state_and_its_numbers_every_five_seconds() -> None:
    plant = busy_plant(32)
    first, memory = frame_and_memory(plant.history)
    plant.play(2)
    second, memory = frame_and_memory(plant.history, memory=memory)
    assert second["verdict"] == first["verdict"]
    assert second["queues"][0]["state_since_at_ms"] == first["queues"][0]["state_since_at_ms"]
    plant.play(4)
    assert frame_and_memory(plant.history, memory=memory)[0]["verdict"] != first["verdict"]


def test_markup_in_names_passes_as_text() -> None:
    name = "<script>{{7*7}}"
    frame = frame_of(history_of(make_snapshot(0, {name: make_queue()})))
    assert frame["queues"][0]["name"] == name


def test_queues_stand_by_rank_then_weight_and_never_move() -> None:
    policies = {
        "bulk": {**POLICY, "weight": 1},
        "normal": {**POLICY, "weight": 3},
        "urgent": {**POLICY, "strict_rank": 1},
        "critical": {**POLICY, "strict_rank": 0},
    }
    frame = frame_of(
        history_of(make_snapshot(0, {name: make_queue() for name in policies}, policies=policies))
    )
    assert [row["name"] for row in frame["queues"]] == ["critical", "urgent", "normal", "bulk"]


def test_the_chain_of_buffers_adds_up_and_running_is_never_more_than_in_flight() -> None:
    queue = make_queue(depth=7, delayed=3, in_flight=2)
    worker = make_worker(START_MS)
    held = [{"id": str(n), "queue": "normal", "task": "t", "started_at_ms": START_MS} for n in range(3)]
    worker["held"] = [*held, {"id": "r", "queue": "normal", "task": "t", "started_at_ms": None}]
    holds = [{"door": 4, "blocked": {"normal": 5}}, {"door": 0, "blocked": {}}]
    frame = frame_of(history_of(make_snapshot(0, {"normal": queue}, workers=[worker], holds=holds)))
    assert frame["queues"][0]["buffers"] == {
        "blocked": 5, "spilled": 0, "ready": 7, "delayed": 3, "reserved": 0, "running": 2, "sum": 17,
    }  # fmt: skip
    assert frame["buffers"]["door"] == 4
    assert frame["buffers"]["sum"] == 21


def test_what_is_spilled_stands_outside_the_bounds_and_a_full_spill_is_at_its_bound() -> None:
    policies = {"normal": {**POLICY, "max_count": 10, "on_full": "spill", "spill_max_count": 5}}
    queue = make_queue(depth=4, delayed=5, bytes=40)
    queue |= {"spilled": 5, "spilled_bytes": 50, "spill_oldest_at_ms": START_MS - 7_000}
    row = frame_of(history_of(make_snapshot(0, {"normal": queue}, policies=policies)))["queues"][0]
    assert (row["delayed"], row["spilled"]) == (5, 5)
    assert (row["spill"]["count"], row["spill"]["bytes"], row["spill"]["oldest_age_ms"]) == (5, 50, 7_000)
    assert (row["state"], row["full_bound"]) == ("at_bound", "spill")
    queue |= {"spilled": 4, "delayed": 4}
    frame = frame_of(history_of(make_snapshot(0, {"normal": queue}, policies=policies)))
    check(frame)
    assert frame["queues"][0]["state"] == "in_bounds"  # four wait, and what is spilled takes no room


def test_a_key_that_holds_work_back_is_named_with_its_holder() -> None:
    held = {"key": "account", "tenant": "t", "holder": "one", "waiting": 3, "oldest_at_ms": START_MS - 9_000}
    leased = {
        "holder_state": "leased",
        "holder_epoch": 7,
        "holder_worker": "w1",
        "holder_since_at_ms": START_MS - 500,
    }
    gone = dict.fromkeys(("holder_state", "holder_epoch", "holder_worker", "holder_since_at_ms"))
    queue = make_queue(depth=3) | {"blocked_keys": [held | leased, held | gone], "blocked_keys_known": 2}
    frame = frame_of(history_of(make_snapshot(0, {"normal": queue})))
    check(frame)
    first, second = frame["queues"][0]["blocked_keys"]
    assert (first["holder_phase"], first["epoch"], first["held_ms"], first["oldest_age_ms"]) == (
        "in flight",
        7,
        500,
        9_000,
    )
    assert (second["holder_phase"], second["held_ms"]) == ("gone", None)


def test_an_open_alert_says_what_its_measure_is_now_beside_what_it_was() -> None:
    alerts = [
        {"measure": "depth", "queue": "normal", "value": 90.0, "threshold": 50},
        {"measure": "quarantine_count", "queue": None, "value": 30.0, "threshold": 20},
        {"measure": "depth", "queue": "gone", "value": 1.0, "threshold": 1},
    ]
    facts = DatabaseFacts(quarantine=FACTS.quarantine, alerts=alerts)
    frame = frame_of(history_of(make_snapshot(0, {"normal": make_queue(depth=12)})), facts=facts)
    assert [(item["value"], item["now"]) for item in frame["alerts"]["items"]] == [
        (90.0, 12.0),
        (30.0, 0.0),
        (1.0, None),
    ]


def test_the_sentence_is_made_anew_when_the_direction_of_a_queue_changes() -> None:
    policies = {"normal": {**POLICY, "max_count": 10}}
    first, second = (
        history_of(make_snapshot(at, {"normal": make_queue(depth=20)}, policies=policies)) for at in (0, 1)
    )
    _, memory = frame_and_memory(first)
    assert memory.verdict is not None
    held = replace(memory, verdict=replace(memory.verdict, headline="normal is growing."))
    assert frame_and_memory(second, memory=held)[0]["verdict"]["headline"] == "normal is growing."
    *rest, (name, state, _) = memory.verdict_key
    turned = replace(held, verdict_key=(*rest, (name, state, "growing")))
    assert "growing" not in frame_and_memory(second, memory=turned)[0]["verdict"]["headline"]

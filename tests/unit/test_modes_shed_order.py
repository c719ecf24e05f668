"""Does the list say who gives way first, as the scripts will do it?"""

from __future__ import annotations

from pathlib import Path

from workers.admission.policy import load_shipped, parse_policy
from workers.modes.shed_order import say_entry, say_within, shed_order

SHIPPED = {
    queue: policy.as_fields()
    for queue, policy in load_shipped(Path(__file__).parents[2] / "config" / "queues.toml").items()
}


def order(mode: str) -> list[tuple[str, str]]:
    return [(step.queue, step.effect) for step in shed_order(SHIPPED, mode)]


def test_the_least_important_gives_way_first_and_critical_last() -> None:
    assert order("normal") == [(q, "bounded") for q in ("bulk", "normal", "urgent", "critical")]
    assert order("saturated") == [
        ("bulk", "closed"),
        ("normal", "narrowed"),
        ("urgent", "bounded"),
        ("critical", "bounded"),
    ]
    assert (
        {effect for _, effect in order("draining")} == {effect for _, effect in order("failed")} == {"closed"}
    )


def test_each_step_says_its_mark_and_its_rule_in_words() -> None:
    normal = {step.queue: step.says for step in shed_order(SHIPPED, "normal")}
    assert normal["bulk"].replace("\u00a0", " ") == (
        "at 5,000 jobs, 64 MiB or 2 h of work new offers are refused with a time to come back"
    )
    saturated = {step.queue: step.says for step in shed_order(SHIPPED, "saturated")}
    assert saturated["bulk"] == "closed: every new offer is refused"
    assert "10,000 jobs" in saturated["normal"] and "50\u00a0% of the usual" in saturated["normal"]


def test_what_a_queue_declares_for_its_bound_is_said() -> None:
    base = {"max_count": 10}
    told = {}
    for on_full, more in {
        "block": {"block_s": 5},
        "drop_oldest": {},
        "sample": {"sample_rate": 0.25},
        "degrade": {"degrade_to": "t.cheap", "degrade_reserve": 0.2},
        "spill": {"spill_max_count": 50},
    }.items():
        policy = parse_policy({**base, "on_full": on_full, **more}).as_fields()
        told[on_full] = shed_order({"q": policy}, "normal")[0].says.replace("\u00a0", " ")
    assert "wait up to 5 s" in told["block"]
    assert "longest waiting is shed" in told["drop_oldest"]
    assert "25 % of them are let in" in told["sample"]
    assert "accepted as t.cheap, up to 20 % beyond each bound" in told["degrade"]
    assert "the spill, up to 50 jobs" in told["spill"]
    lifo = parse_policy({"order": "lifo", "age_ceiling_s": 60, "max_count": 1}).as_fields()
    assert "1 min is shed" in shed_order({"q": lifo}, "saturated")[0].says.replace("\u00a0", " ")
    admitted = parse_policy({"admit_while_draining": True, "max_count": 1}).as_fields()
    assert shed_order({"q": admitted}, "draining")[0].effect == "bounded"
    assert shed_order({"q": parse_policy({}).as_fields()}, "normal")[0].effect == "unbounded"


def test_it_says_what_brings_a_mode_about() -> None:
    assert "nearest guard is 1\u00a0s (critical)" in say_entry(SHIPPED, "saturated")
    assert "operator" in say_entry(SHIPPED, "draining")
    assert "80\u00a0%" in say_within(SHIPPED)

"""Do bounds follow from a promised wait by Little's law, and never jump?"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.forecast.allocation import Through
from workers.forecast.drain import Rules
from workers.forecast.load import Load
from workers.forecast.model import queue_model
from workers.forecast.promise import (
    PRIOR,
    PRIOR_SERVICE_MS,
    PRIOR_SLOTS,
    STEP,
    Rates,
    promise_facts,
    promised_bounds,
    step_towards,
)
from workers.store import scripts

RATES = st.builds(Rates, *[st.floats(0.001, 1e6)] * 3)


def load(**changes: Any) -> Load:
    facts: dict[str, Any] = {
        "name": "q",
        "depth": 0,
        "in_flight": 0,
        "consumers": 1,
        "slots": 4.0,
        "age_s": 0.0,
        "work_ms": 0.0,
        "mean_service_ms": 200.0,
        "service_from": "60 s",
        "service_n": 50,
        "variation": 1.0,
        "arrivals_per_s": 0.0,
        "arrivals_n": 0,
        "arrivals_unknown": "",
        "completed_per_s": None,
        "completed_n": 0,
        "cost_factor": 1.0,
    }
    return Load(**{**facts, **changes})


def model(
    before: dict[str, float] | None = None, rule: Rules | None = None, **changes: Any
) -> dict[str, Any]:
    one = load(**changes)
    rules = {"q": rule or Rules()}
    return queue_model(one, [one], rules, total_slots=one.slots, before=before)


def settled(rule: Rules | None = None, **changes: Any) -> dict[str, Any]:
    """The model after a minute of the same."""
    found: dict[str, Any] = {}
    for _ in range(60):
        found = {**found, **model(found, rule, **changes)}
    return found


def test_what_may_stand_is_what_is_served_within_the_wait() -> None:
    bounds = promised_bounds(30, Rates(work_ms_per_s=4_000, jobs_per_s=20, mean_s=0.2))
    assert (bounds.count, bounds.cost_ms, bounds.wait_s) == (600, 120_000, 30)


def test_each_slot_may_have_a_next_job_however_short_the_wait() -> None:
    bounds = promised_bounds(1, Rates(work_ms_per_s=4_000, jobs_per_s=0.1, mean_s=40))
    assert (bounds.count, bounds.wait_s) == (4, 40)


@given(RATES, RATES)
def test_rates_move_by_one_step_at_most(goal: Rates, stood: Rates) -> None:
    found = step_towards(goal, stood)
    for name in ("work_ms_per_s", "jobs_per_s", "mean_s"):
        now, before, wanted = (getattr(rates, name) for rates in (found, stood, goal))
        assert before * (1 - STEP) * 0.999 <= now <= before * (1 + STEP) * 1.001
        assert min(before, wanted) * 0.999 <= now <= max(before, wanted) * 1.001


def test_idle_does_not_make_the_rates_small() -> None:
    found = settled(arrivals_per_s=0.0)
    assert (found["work_rate"], found["job_rate"]) == (4_000, 20)


def test_no_worker_leaves_them_as_they_were_and_none_ever_leaves_the_prior() -> None:
    stood = settled()
    assert model(stood, consumers=0, slots=0.0) == {"seconds_to_drain": None}
    first = model({}, consumers=0, slots=0.0)
    assert (first["work_rate"], first["job_rate"]) == (4_000, 40)


def test_a_downstream_takes_its_part_and_says_so() -> None:
    found = settled(Rules(through=(Through("bank", 1.0),)))
    assert (found["downstream_share"], found["work_rate"]) == (0.25, 1_000)
    assert settled()["downstream_share"] == 1.0


def test_one_urgent_job_at_the_instant_of_a_sample_is_no_backlog() -> None:
    bulk = load(depth=2, work_ms=400.0)
    rules = {"q": Rules(), "urgent": Rules(strict_rank=1)}

    def drains_in(**urgent: Any) -> float:
        loads = [bulk, load(name="urgent", **urgent)]
        seconds = queue_model(bulk, loads, rules, total_slots=4.0)["seconds_to_drain"]
        assert seconds is not None
        return seconds

    assert drains_in(depth=1, work_ms=200.0) == pytest.approx(0.1, abs=0.005)
    assert drains_in(depth=500, work_ms=100_000.0) == pytest.approx(0.4 / 0.05)  # all slots are taken


def test_the_prior_in_the_script_is_the_same() -> None:
    said = re.search(r"PRIOR_SLOTS, PRIOR_MS = (\d+), (\d+)", scripts.source("admit"))
    assert said is not None
    assert (float(said[1]), float(said[2])) == (PRIOR_SLOTS, PRIOR_SERVICE_MS)
    assert PRIOR.mean_s == PRIOR_SERVICE_MS / 1000


@pytest.mark.parametrize(
    ("consumers", "stood", "said"), [(1, {}, "prior"), (0, PRIOR.as_model(), "last seen")]
)
def test_the_sum_says_where_it_comes_from(consumers: int, stood: Any, said: str) -> None:
    facts = promise_facts(
        {"max_wait_s": 10.0},
        stood,
        slots=2,
        consumers=consumers,
        mean_service_ms=None,
        service_from="nothing",
    )
    assert facts is not None
    assert (facts["count"], facts["from"]) == (400, said)
    assert promise_facts({}, {}, slots=2, consumers=1, mean_service_ms=1, service_from="60 s") is None

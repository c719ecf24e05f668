"""Is the drain forecast true, in every state it can name?"""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.snapshot_maker import Plant, make_queue, make_snapshot
from workers.forecast.drain import Outlook, Rules, band, drain_facts, forecast, one_slot_fewer
from workers.forecast.fullness import nearest_bound
from workers.forecast.load import Load, read_load
from workers.metrics.history import History
from workers.store.bins import bin_value_ms


def load_of(plant: Plant) -> Load:
    load = read_load(plant.history, plant.name, bin_value=bin_value_ms)
    assert load is not None
    return load


def outlook_of(plant: Plant) -> Outlook:
    return forecast([load_of(plant)], {}, total_slots=plant.slots)[plant.name]


def make_load(name: str, **changes: object) -> Load:
    base = {
        "name": name,
        "depth": 100,
        "in_flight": 0,
        "consumers": 1,
        "slots": 2.0,
        "age_s": 1.0,
        "work_ms": 20_000.0,
        "mean_service_ms": 200.0,
        "service_from": "60 s",
        "service_n": 50,
        "variation": 0.1,
        "arrivals_per_s": 0.0,
        "arrivals_n": 0,
        "arrivals_unknown": "",
        "completed_per_s": None,
        "completed_n": 0,
        "cost_factor": 1.0,
    }
    return Load(**{**base, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("cost_ms", [20, 100, 200, 1000])
def test_five_hundred_jobs_of_200_ms_are_forecast_within_30_percent_from_10_s_on(cost_ms: int) -> None:
    plant = Plant(
        service_ms=200, slots=2, cost_ms=cost_ms
    )  # the estimate may be wrong: what counts is measured
    plant.sample()
    plant.accept(500)
    end_s = 50.0
    for second in range(1, 48):
        plant.play(1)
        outlook = outlook_of(plant)
        if second >= 10:
            assert outlook.state == "draining"
            assert outlook.seconds == pytest.approx(end_s - second, rel=0.3)
            low, high = band(load_of(plant), outlook) or (0, 0)
            assert low < outlook.seconds < high


def test_one_slot_fewer_takes_twice_as_long_with_two() -> None:
    plant = Plant(service_ms=200, slots=2)
    plant.sample()
    plant.accept(500)
    plant.play(12)
    now = outlook_of(plant)
    fewer = one_slot_fewer([load_of(plant)], {}, total_slots=2)["normal"]
    assert now.seconds
    assert fewer.seconds == pytest.approx(2 * now.seconds, rel=0.1)


def test_no_worker_is_stalled() -> None:
    plant = Plant(service_ms=200, slots=0)
    plant.accept(500)
    plant.play(12)
    outlook = outlook_of(plant)
    assert (outlook.state, outlook.seconds, outlook.reason) == ("stalled", None, "no consumer")


def test_arrivals_twice_the_service_are_growing_and_full_in_the_time_it_takes() -> None:
    plant = Plant(service_ms=200, slots=2)
    plant.play(20, arrivals_per_s=20)
    load, outlook = load_of(plant), outlook_of(plant)
    assert (outlook.state, outlook.seconds) == ("growing", None)
    held = load.depth
    fill = nearest_bound(
        load,
        outlook,
        bounds={"count": 1000, "bytes": None, "cost_ms": None, "age_s": None},
        held=held,
        held_bytes=0,
        cost_ms=0,
    )
    assert fill is not None
    assert fill.bound == "count"
    assert fill.seconds == pytest.approx((1000 - held) / 10, rel=0.15)


def test_an_empty_queue_drains_in_zero() -> None:
    plant = Plant(service_ms=200, slots=2)
    plant.play(12)
    outlook = outlook_of(plant)
    assert (outlook.state, outlook.seconds) == ("empty", 0.0)


def test_jobs_delayed_by_an_hour_are_not_counted() -> None:
    plant = Plant(service_ms=200, slots=2)
    plant.sample()
    plant.accept(500, delayed=250)
    plant.play(11)
    assert outlook_of(plant).seconds == pytest.approx(25 - 11, rel=0.3)


def test_a_starved_class_says_by_whom_and_drains_after_it() -> None:
    rules = {"urgent": Rules(strict_rank=1), "bulk": Rules(weight=1)}
    loads = [make_load("urgent"), make_load("bulk")]
    outlooks = forecast(loads, rules, total_slots=2)
    assert outlooks["urgent"].seconds == pytest.approx(10)
    assert outlooks["bulk"].reason == "starved by urgent"
    assert outlooks["bulk"].state == "draining"
    assert outlooks["bulk"].seconds == pytest.approx(20)


def test_a_class_starved_for_ever_is_stalled_or_growing_never_draining() -> None:
    rules = {"urgent": Rules(strict_rank=1)}
    endless = make_load("urgent", arrivals_per_s=20.0, arrivals_n=140)
    still = forecast([endless, make_load("bulk")], rules, total_slots=2)["bulk"]
    assert (still.state, still.seconds, still.reason) == ("stalled", None, "starved by urgent")
    coming = forecast([endless, make_load("bulk", arrivals_per_s=1.0)], rules, total_slots=2)["bulk"]
    assert (coming.state, coming.reason) == ("growing", "starved by urgent")


def test_a_starved_class_past_its_ceiling_gets_a_tenth_of_the_slots() -> None:
    rules = {"urgent": Rules(strict_rank=1), "bulk": Rules(ceiling_s=10)}
    endless = make_load("urgent", arrivals_per_s=20.0, arrivals_n=140)
    late = forecast([endless, make_load("bulk", age_s=11.0)], rules, total_slots=2)["bulk"]
    assert late.state == "draining"
    assert late.seconds == pytest.approx(20 / 0.2)


def test_weights_share_what_strict_ranks_leave() -> None:
    rules = {"normal": Rules(weight=3), "bulk": Rules(weight=1)}
    outlooks = forecast([make_load("normal"), make_load("bulk")], rules, total_slots=2)
    assert outlooks["normal"].seconds == pytest.approx(20 / 1.5)
    assert outlooks["bulk"].seconds == pytest.approx(20)  # the whole plant is free once normal is done


def test_without_a_service_time_it_is_unknown_with_the_reason() -> None:
    load = make_load("normal", mean_service_ms=None, service_from="nothing")
    outlook = forecast([load], {}, total_slots=2)["normal"]
    assert (outlook.state, outlook.reason) == ("unknown", "no service time measured yet")


def test_a_first_sample_is_unknown_until_arrivals_can_be_told() -> None:
    history = History()
    history.add(make_snapshot(0, {"normal": make_queue(depth=5, cost_ms=500)}))
    load = read_load(history, "normal", bin_value=bin_value_ms)
    assert load is not None
    outlook = forecast([load], {}, total_slots=2)["normal"]
    assert (outlook.state, outlook.reason) == ("unknown", "not enough samples yet")


figures = st.floats(min_value=0, max_value=1e9, allow_nan=False)
loads = st.builds(
    make_load,
    st.sampled_from(["a", "b", "c"]),
    depth=st.integers(0, 10**6),
    in_flight=st.integers(0, 1000),
    consumers=st.integers(0, 3),
    slots=st.integers(0, 64).map(float),
    age_s=figures,
    work_ms=figures,
    mean_service_ms=st.none() | st.floats(min_value=1, max_value=1e7),
    arrivals_per_s=st.none() | figures,
    completed_per_s=st.none() | figures,
    completed_n=st.integers(0, 10**6),
    variation=st.floats(0, 3),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(loads, min_size=1, max_size=3, unique_by=lambda load: load.name), st.integers(0, 64))
def test_a_forecast_is_never_infinite_negative_or_not_a_number(many: list[Load], slots: int) -> None:
    rules = {"a": Rules(strict_rank=0), "b": Rules(strict_rank=1, ceiling_s=5), "c": Rules(weight=2)}
    for outlooks in (
        forecast(many, rules, total_slots=slots),
        one_slot_fewer(many, rules, total_slots=slots),
    ):
        for load in many:
            outlook = outlooks[load.name]
            assert outlook.state in ("empty", "draining", "growing", "stalled", "unknown")
            edges = band(load, outlook) or (0.0, 0.0)
            for seconds in (outlook.seconds, *edges):
                assert seconds is None or (math.isfinite(seconds) and seconds >= 0)
            json.dumps(drain_facts(load, outlook, rule=rules[load.name], total_slots=slots), allow_nan=False)
            fill = nearest_bound(
                load, outlook, bounds={"count": 10, "age_s": 5.0}, held=load.depth, held_bytes=10, cost_ms=7
            )
            assert fill is None or (math.isfinite(fill.seconds) and fill.seconds >= 0)

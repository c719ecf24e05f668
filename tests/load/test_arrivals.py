"""Do floods arrive at the rate and with the mix that was asked for?"""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.flood.arrivals import BURST_PERIOD_S, BURST_SHARE, Mix, arrive_constantly, arrive_in_bursts
from workers.flood.demonstration import TENANTS, arrive_as_demonstration, is_overload

MIX = Mix("drill.echo", {"urgent": 1, "bulk": 3}, {"a": 1, "b": 1})


@given(st.integers(0, 300), st.floats(0.5, 500))
def test_a_count_is_met_to_the_job(count: int, rate: float) -> None:
    for arrive in (arrive_constantly, arrive_in_bursts):
        assert len(list(arrive(MIX, rate, count=count, duration_s=None, source=random.Random(1)))) == count


def test_constant_arrivals_keep_equal_distances() -> None:
    times = [a.at_s for a in arrive_constantly(MIX, 4, count=None, duration_s=2, source=random.Random(1))]
    assert times == [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75]


def test_bursts_keep_the_mean_rate_and_hold_most_of_the_jobs() -> None:
    found = list(arrive_in_bursts(MIX, 50, count=None, duration_s=200, source=random.Random(7)))
    assert len(found) == pytest.approx(50 * 200, rel=0.05)
    inside = sum(a.at_s % BURST_PERIOD_S < BURST_SHARE * BURST_PERIOD_S for a in found)
    assert inside / len(found) == pytest.approx(0.75, abs=0.03)


def test_queues_are_drawn_by_their_weights() -> None:
    found = arrive_constantly(MIX, 1, count=4000, duration_s=None, source=random.Random(7))
    counts = Counter(arrival.queue for arrival in found)
    assert counts["bulk"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_the_demonstration_uses_all_queues_and_tenants_in_order_of_time() -> None:
    stream = arrive_as_demonstration("http://127.0.0.1:1", slots=2, source=random.Random(3))
    found = list(itertools.takewhile(lambda arrival: arrival.at_s < 1200, stream))
    times = [arrival.at_s for arrival in found]
    assert times == sorted(times)
    assert {arrival.queue for arrival in found} == {"critical", "urgent", "normal", "bulk"}
    assert {arrival.tenant for arrival in found} == set(TENANTS)


def test_the_demonstration_overloads_for_a_minute_in_every_ten() -> None:
    assert not is_overload(0)
    assert sum(is_overload(second) for second in range(3600)) == 6 * 60

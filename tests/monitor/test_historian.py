"""Is history kept at falling resolution, with gaps where nothing was measured?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from workers.loops.historian import Historian, trim
from workers.models import Sample

pytestmark = [pytest.mark.database, pytest.mark.django_db]

START_MS = 1_800_000_000_000


def frame(at_ms: int, depth: int) -> dict[str, Any]:
    gauges = dict.fromkeys(("oldest_age_ms", "delayed", "spilled", "in_flight", "bytes", "cost_ms"), 0)
    row = {"name": "normal", **gauges, "depth": depth, "drain": {"seconds": None}}
    row |= {"rates": {}, "wait_ms": {}, "totals": {}}
    if at_ms % 10_000 == 0:
        row["wait_bins"] = {"7": 3}
    return {"at_ms": at_ms, "mode": "normal", "queues": [row]}


def play(historian: Historian, seconds: range, *, depth: Any = lambda second: 1) -> None:
    for second in seconds:
        historian.hear(frame(START_MS + 1000 * second, depth(second)), {})
        if second % 2 == 0:
            historian.tick()


def depths(step_s: int) -> list[int]:
    rows = Sample.objects.filter(step_s=step_s).order_by("at_ms")
    return [row.data["queues"]["normal"]["depth"] for row in rows]


def test_each_second_is_kept_and_coarse_steps_keep_the_peak_and_the_median() -> None:
    play(Historian(), range(0, 131), depth=lambda second: 90 if second == 33 else 1)
    assert len(depths(1)) == 131
    assert depths(10)[:6] == [1, 1, 1, 90, 1, 1]
    assert depths(60) == [90, 1]
    minute = Sample.objects.filter(step_s=60).order_by("at_ms")[0].data
    assert minute["median"]["normal"]["depth"] == 1
    assert minute["queues"]["normal"]["wait_bins"] == {"7": 3}
    assert minute["queues"]["normal"]["offered"] is None


def test_a_restart_loses_no_coarse_sample() -> None:
    play(Historian(), range(0, 37))
    play(Historian(), range(37, 80))
    assert len(depths(10)) == 7


def test_a_gap_stays_a_gap() -> None:
    historian = Historian()
    play(historian, range(0, 21))
    play(historian, range(60, 81))
    assert [(row.at_ms - START_MS) // 1000 for row in Sample.objects.filter(step_s=10).order_by("at_ms")] == [
        0,
        10,
        20,
        60,
    ]


def test_a_database_that_is_away_delays_nobody_and_what_does_not_fit_becomes_a_gap(monkeypatch: Any) -> None:
    historian = Historian()

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Sample.objects, "bulk_create", refuse)
        play(historian, range(0, 300))
    assert Sample.objects.count() == 0
    historian.tick()
    assert len(depths(1)) == 120


def test_old_samples_go() -> None:
    for step_s, age_s in ((1, 901), (1, 10), (10, 21_601), (60, 604_801), (60, 21_601)):
        Sample.objects.create(step_s=step_s, at_ms=START_MS - 1000 * age_s, data={})
    assert trim(START_MS) == 3

"""Do numbers read as they should?"""

from __future__ import annotations

import pytest

from workers.forecast.wording import join_names, put_bytes, put_duration, put_number, put_rate, put_share
from workers.store import Verdict
from workers.store.offers import say_figures


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.23, "0.2 s"),
        (5.4, "5.4 s"),
        (5.0, "5 s"),
        (49.2, "49 s"),
        (59.7, "1 min"),
        (250, "4 min 10 s"),
        (660, "11 min"),
        (11_520, "3 h 12 min"),
        (90_000, "1 d 1 h"),
        (-1, "0 s"),
        (0, "0 s"),
        (0.02, "less than 0.1 s"),
    ],
)
def test_durations_have_two_units_at_most_and_no_zero_part(seconds: float, words: str) -> None:
    assert put_duration(seconds).replace("\u00a0", " ") == words


def test_other_numbers() -> None:
    assert put_number(1240) == "1,240"
    assert put_number(-3) == "\u22123"
    assert put_share(0.69) == "69\u00a0%"
    assert put_rate(42) == "42.0\u00a0jobs/s"
    assert put_bytes(15.4 * 2**20) == "15.4\u00a0MiB"
    assert put_bytes(512) == "512\u00a0B"
    assert join_names(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("reason", "value", "bound", "words"),
    [
        ("count", 6, 5, "6 with this one, at most 5"),
        ("count", 5, 4.5, "5 with this one, at most 4"),
        ("bytes", 1200, 1000, "1200 bytes with this one, at most 1000 bytes"),
        ("cost", 13_400_000, 3_600_000, "13400000 ms of work with this one, at most 3600000 ms of work"),
        ("size", 1200, 1000, "1200 bytes, at most 1000 bytes"),
        ("age", 12_300, 10_000, "12.3 s, at most 10.0 s"),
        ("waiting_room", 20, 20, "20 tickets are out, at most 20"),
        ("duplicate", None, 7, "bound 7"),
        ("rate", None, None, ""),
    ],
)
def test_the_figures_of_a_refusal_say_what_they_count(reason, value, bound, words) -> None:
    figures = {name: figure for name, figure in (("value", value), ("bound", bound)) if figure is not None}
    assert say_figures(Verdict(False, "i", "normal", "refused", reason, figures=figures)) == words


@pytest.mark.parametrize("reason", ["tenant", "downstream"])
@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("jobs", "5 jobs with this one, at most 4 jobs"),
        ("bytes", "5 bytes with this one, at most 4 bytes"),
        ("ms", "5 ms of work with this one, at most 4 ms of work"),
        (None, "5 with this one, at most 4"),
    ],
)
def test_what_has_bounds_of_several_kinds_says_of_which_kind_was_met(reason, unit, words) -> None:
    verdict = Verdict(False, "i", "normal", "refused", reason, figures={"value": 5, "bound": 4}, unit=unit)
    assert say_figures(verdict) == words

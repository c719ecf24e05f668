"""Do numbers read as they should?"""

from __future__ import annotations

import pytest

from workers.forecast.wording import join_names, put_bytes, put_duration, put_number, put_rate, put_share


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

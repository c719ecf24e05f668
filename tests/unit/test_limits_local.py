"""Does each producer keep to its part of a limit that is counted locally, and how far is the sum off?"""

from __future__ import annotations

from typing import Any

import pytest

from workers.limits.local import MOST_SUBJECTS, LocalLimits

KINDS = ("token_bucket", "leaky_bucket", "fixed_window", "sliding_window")


def limit(kind: str, number: int = 12, **about: Any) -> dict[str, Any]:
    burst = number if kind.endswith("bucket") else None
    return {"per": "queue", "kind": kind, "limit": number, "window_s": 10.0, "burst": burst, **about}


def let_through(limits: LocalLimits, at_s: float, number: int = 50) -> int:
    return sum(limits.wait_s("t", None, at_s) <= 0 for _ in range(number))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("producers", [1, 2, 3, 4])
def test_all_producers_together_let_through_the_limit(kind: str, producers: int) -> None:
    each = [LocalLimits([limit(kind)], producers=producers) for _ in range(producers)]
    assert sum(let_through(own, 1000.0) for own in each) == 12
    assert sum(let_through(own, 1001.0) for own in each) in ((0, 1, 2) if "bucket" in kind else (0,))
    assert sum(let_through(own, 1012.0) for own in each) == 12


@pytest.mark.parametrize("kind", KINDS)
def test_waiting_as_told_is_enough(kind: str) -> None:
    limits = LocalLimits([limit(kind, 3)], producers=1)
    let_through(limits, 1003.0)
    wait_s = limits.wait_s("t", None, 1003.5)
    assert 0 < wait_s <= 10
    assert limits.wait_s("t", None, 1003.5 + wait_s - 0.01) > 0
    assert limits.wait_s("t", None, 1003.5 + wait_s) <= 0


def test_more_producers_than_the_limit_let_through_one_each() -> None:
    each = [LocalLimits([limit("fixed_window", 2)], producers=5) for _ in range(5)]
    assert sum(let_through(own, 1000.0) for own in each) == 5  # stated: too many, by this much


def test_nothing_is_charged_by_one_limit_for_what_another_refuses() -> None:
    limits = LocalLimits(
        [limit("fixed_window", 5), limit("fixed_window", 1, per="tenant", window_s=3600.0)], producers=1
    )
    assert let_through(limits, 1000.0) == 1
    assert sum(limits.wait_s(f"t{n}", None, 1000.0) <= 0 for n in range(9)) == 4


def test_a_new_number_of_producers_keeps_what_was_counted() -> None:
    limits = LocalLimits([limit("sliding_window")], producers=1)
    assert let_through(limits, 1000.0) == 12
    limits.change([limit("sliding_window")], producers=2)
    assert let_through(limits, 1001.0) == 0
    limits.change([limit("sliding_window", 40)], producers=2)
    assert let_through(limits, 1001.0) == 20


def test_how_many_subjects_are_remembered_is_bounded() -> None:
    limits = LocalLimits([limit("token_bucket", per="tenant")], producers=1)
    for number in range(MOST_SUBJECTS + 50):
        limits.wait_s(f"t{number}", None, 1000.0)
    assert len(limits._states[0]) == MOST_SUBJECTS

"""Is anything lost, or run twice unseen, when every kind of process is killed over and over under load?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .storm import Figures, Storm

FEW = {"child": 4, "worker": 1, "worker and children": 1, "web": 1, "monitor": 1, "redis": 1}
#: A thousand, most of them where jobs run.
MANY = {
    "child": 560,
    "worker": 80,
    "worker and children": 80,
    "worker of threads": 80,
    "web": 80,
    "monitor": 60,
    "redis": 60,
}


@pytest.fixture
def storm() -> Iterator[Storm]:
    storm = Storm()
    storm.start()
    yield storm
    storm.close()


def check(figures: Figures) -> None:
    print(f"\n{figures}")
    assert not figures.lost, f"{figures}; {figures.lost[:5]}"
    assert not figures.strangers, f"{figures}; {figures.strangers[:5]}"
    assert not figures.stale, f"{figures}; {figures.stale[:5]}"
    assert not figures.unexplained, f"{figures}; {figures.unexplained[:5]}"
    assert not figures.never_answered, figures


@pytest.mark.slow
def test_nothing_is_lost_over_a_few_kills_of_everything(storm: Storm) -> None:
    check(storm.rage(FEW, longest_pause_s=1.2, within_s=60))


@pytest.mark.soak
@pytest.mark.timeout(6000)
def test_nothing_is_lost_over_a_thousand_kills_of_everything(storm: Storm) -> None:
    figures = storm.rage(MANY, longest_pause_s=1.5, within_s=5400)
    check(figures)
    assert sum(figures.kills.values()) == sum(MANY.values()), figures

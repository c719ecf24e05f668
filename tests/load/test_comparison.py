"""Does the bench compare pair by pair, and say truthfully whether an aim is met?"""

from __future__ import annotations

from workers.bench.comparison import Aim, Comparison, measure_pairs
from workers.bench.report import format_row


def test_who_goes_first_alternates() -> None:
    order: list[str] = []

    def note(name: str) -> float:
        order.append(name)
        return 1.0

    measure_pairs(3, lambda: note("gate"), lambda: note("stock"))
    assert order == ["gate", "stock", "stock", "gate", "gate", "stock"]


def test_the_ratio_is_that_of_pairs_and_not_of_medians() -> None:
    compared = Comparison(
        "delay", "jobs/s", ("gate", "stock"), (10, 1, 4), (5, 1, 1), Aim(1.5, at_least=True)
    )
    document = compared.as_document()
    assert document["ratio"]["median"] == 2
    assert (document["ratio"]["min"], document["ratio"]["max"]) == (1, 4)
    assert document["met"] is True
    assert " met" in format_row(compared)


def test_an_aim_from_above_is_not_met_by_more() -> None:
    compared = Comparison("bytes", "bytes", ("gate", "stock"), (12,), (10,), Aim(1.15, at_least=False))
    assert compared.as_document()["met"] is False
    assert "NOT met" in format_row(compared)

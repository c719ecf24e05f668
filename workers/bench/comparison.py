"""What do several rounds of two sides say? Medians, spread, and the ratio of each pair."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Aim:
    """What the product has to meet; ``at_least`` says on which side of ``ratio`` it must be."""

    ratio: float
    at_least: bool

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.ratio if self.at_least else ratio <= self.ratio


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rounds in order; the n-th values of both sides were measured one after the other."""

    name: str
    unit: str
    sides: tuple[str, str]
    first: tuple[float, ...]
    second: tuple[float, ...]
    aim: Aim | None = None
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.first, self.second, strict=True) if b > 0]

    def as_document(self) -> dict[str, Any]:
        ratios = _summary(self.ratios)
        return {
            "name": self.name,
            "unit": self.unit,
            self.sides[0]: _summary(self.first),
            self.sides[1]: _summary(self.second),
            "ratio": ratios,
            "aim": None if self.aim is None else f"{'>=' if self.aim.at_least else '<='} {self.aim.ratio}",
            "met": None if self.aim is None or ratios is None else self.aim.is_met(ratios["median"]),
            "note": self.note,
        }


def measure_pairs(
    rounds: int, first: Callable[[], float], second: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Both measurements ``rounds`` times, side by side; who goes first alternates."""
    a: list[float] = []
    b: list[float] = []
    for number in range(rounds):
        if number % 2 == 0:
            a.append(first())
            b.append(second())
        else:
            b.append(second())
            a.append(first())
    return a, b


def _summary(values: list[float] | tuple[float, ...]) -> dict[str, Any] | None:
    if not values:
        return None
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "rounds": list(values),
    }

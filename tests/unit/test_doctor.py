"""When does the doctor call a counter wrong?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from workers.management.commands.doctor import GAUGES, check_counts


class ABusyStore:
    """A job begins and ends between the reads of its counters; ``lies`` leaves out that it did."""

    def __init__(self, *, lies: bool) -> None:
        self.begun: Iterator[int] = count()
        self.lies = lies

    def read_policies(self) -> dict[str, Any]:
        return {"normal": {}}

    def snapshot(self) -> dict[str, Any]:
        started = 0 if self.lies else next(self.begun)
        return {
            "queues": {"normal": {**dict.fromkeys(GAUGES, 0), "totals": {"started": started, "offered": 1}}}
        }

    def recount(self) -> dict[str, Any]:
        return {"normal": {**dict.fromkeys(GAUGES, 0), "in_flight": 1}}


def test_what_began_and_ended_between_two_reads_is_no_fault() -> None:
    (found,) = check_counts(ABusyStore(lies=False))  # type: ignore[arg-type]
    assert found.level == "note"
    assert "too busy" in found.text


def test_a_gauge_that_differs_while_nothing_moves_is_a_fault() -> None:
    (found,) = check_counts(ABusyStore(lies=True))  # type: ignore[arg-type]
    assert found.level == "fault"

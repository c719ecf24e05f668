"""Is a loss of Redis's data told from a quiet minute, and counted?"""

from __future__ import annotations

from typing import Any

from workers.metrics.loss import compare, say_loss


def snapshot(at_ms: int, **queues: tuple[int, int, int, int]) -> dict[str, Any]:
    names = ("depth", "delayed", "in_flight")
    return {
        "now_ms": at_ms,
        "queues": {
            name: {**dict(zip(names, figures, strict=False)), "totals": {"accepted": figures[3]}}
            for name, figures in queues.items()
        },
    }


def test_counters_that_stand_or_grow_are_no_loss() -> None:
    before = snapshot(1, normal=(5, 1, 2, 10))
    assert compare(before, snapshot(2, normal=(0, 0, 0, 10))) is None
    assert compare(before, snapshot(2, normal=(5, 1, 2, 11), bulk=(1, 0, 0, 1))) is None


def test_all_and_a_part_are_counted() -> None:
    before = snapshot(1_000, normal=(5, 1, 2, 10), bulk=(7, 0, 1, 40))
    gone = compare(before, snapshot(3_000))
    assert gone is not None
    assert (gone.waited, gone.delayed, gone.ran, gone.forgotten) == (12, 1, 3, 50)
    assert (gone.last_seen_at_ms, gone.found_at_ms) == (1_000, 3_000)
    part = compare(before, snapshot(3_000, normal=(4, 1, 2, 9), bulk=(7, 0, 1, 41)))
    assert part is not None and part.forgotten == 1
    assert "12 jobs waited, 1 were delayed and 3 ran" in say_loss(gone.as_dict())
    assert "50 acceptances are not known any more" in say_loss(gone.as_dict())

"""What did the counters of the promise say before this process began to watch? Read once from the history."""

from __future__ import annotations

from ..metrics.objective import STEP_MS, WINDOWS, Point
from ..models import Sample


def read_points(now_ms: int) -> list[Point]:
    """Points of the last six hours. Counters rise, so the maximum that a sample of 10 s keeps is its last."""
    rows = Sample.objects.filter(step_s=10, at_ms__gte=now_ms - max(WINDOWS.values())).order_by("at_ms")
    points: list[Point] = []
    for at_ms, data in rows.values_list("at_ms", "data").iterator():
        if points and at_ms - points[-1][0] < STEP_MS:
            continue
        counters = {
            queue: (int(row["promised_n"]), int(row["in_objective_n"]))
            for queue, row in data.get("queues", {}).items()
            if row.get("promised_n") is not None and row.get("in_objective_n") is not None
        }
        if counters:
            points.append((at_ms, counters))
    return points

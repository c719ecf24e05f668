"""What stands between the producers and the end of their jobs, part by part?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PARTS = ("blocked", "spilled", "ready", "delayed", "reserved", "running")


def queue_buffers(snapshot: Mapping[str, Any], name: str) -> dict[str, int]:
    """Everything that stands between a producer and the end of a job of this queue, part by part.

    `blocked` waits for room outside the gate; the rest is accepted. What of the jobs in flight has started is
    as the workers' last heartbeats have it, and never more than is in flight.
    """
    queue = snapshot["queues"][name]
    started = sum(
        1
        for worker in snapshot["workers"]
        for job in worker.get("held") or ()
        if job.get("queue") == name and job.get("started_at_ms") is not None
    )
    in_flight = int(queue["in_flight"])
    running = min(in_flight, started)
    parts = {
        "blocked": sum(
            int((held.get("blocked") or {}).get(name) or 0) for held in snapshot.get("holds") or ()
        ),
        "spilled": int(queue.get("spilled") or 0),
        "ready": int(queue["depth"]),
        "delayed": int(queue["delayed"]),
        "reserved": in_flight - running,
        "running": running,
    }
    return {**parts, "sum": sum(parts.values())}


def sum_buffers(snapshot: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The same of all queues, and before them the requests that wait at the doors for their turn."""
    door = sum(int(held.get("door") or 0) for held in snapshot.get("holds") or ())
    parts = {"door": door, **{name: sum(row["buffers"][name] for row in rows) for name in PARTS}}
    return {**parts, "sum": sum(parts.values())}

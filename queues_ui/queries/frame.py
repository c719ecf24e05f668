"""What is the newest frame, and how old is it?"""

from __future__ import annotations

import json
from typing import Any

from workers.store import Store


def read_frame(store: Store) -> dict[str, Any] | None:
    """The monitor's newest frame with its age as of now; None while no monitor has made one."""
    text = store.read_frame()
    if text is None:
        return None
    frame: dict[str, Any] = json.loads(text)
    frame.pop("type", None)
    if store.clock.is_set:
        frame["sampled_ago_ms"] = max(0, store.clock.now_ms() - int(frame["at_ms"]))
    return frame


def narrow_to_tenant(frame: dict[str, Any], tenant: str) -> dict[str, Any]:
    """What a key that only reads may see of a frame: others' names and jobs left out."""
    frame["tenants"] = [row for row in frame.get("tenants") or [] if row.get("tenant") == tenant]
    for worker in frame.get("workers") or []:
        worker["held"] = len(worker.get("held") or [])
    if isinstance(frame.get("quarantine"), dict):
        frame["quarantine"]["causes"] = []
    return frame

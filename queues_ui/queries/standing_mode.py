"""Which mode refuses? By the modes as this process read them last: a refused crowd asks Redis once."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, Final

from workers.actions.set_mode import EVERYWHERE
from workers.exceptions import StoreUnavailable
from workers.modes.effect import in_force
from workers.store import Store

FRESH_S: Final = 1.0
AGAIN_S: Final = 0.1  # sooner, where what was read explains nothing: the mode was set since
CLOSED: Final = {"mode": ("draining", "saturated"), "unavailable": ("failed",)}

_seen: tuple[float, dict[str, dict[str, Any]]] = (float("-inf"), {})


def find_mode(store: Store, queue: str, reason: str) -> dict[str, Any] | None:
    """The mode that refuses for this reason, whose, by whom, until when; None where that is not known.

    Who submits is told whether an operator or the gate itself set it, not the operator's name or words.
    """
    for fresh_s in (FRESH_S, AGAIN_S):
        try:
            modes = _read(store, fresh_s)
        except StoreUnavailable:
            return None
        mode, entry = in_force(modes, queue, now_ms=store.clock.now_ms())
        if entry is not None and mode in CLOSED[reason]:
            return {
                "mode": mode,
                "scope": "installation" if entry is modes.get(EVERYWHERE) else "queue",
                "by": "gate" if entry["automatic"] else "operator",
                "since_at_ms": entry["since_at_ms"],
                "until_at_ms": entry["until_at_ms"],
                "until": entry["until"],
            }
    return None


def say_mode(told: dict[str, Any], queue: str) -> str:
    whose, it = (
        ("The installation", queue) if told["scope"] == "installation" else (f"The queue {queue}", "it")
    )
    who = "the gate itself" if told["by"] == "gate" else "an operator"
    end = ""
    if told["until"] == "drained":
        end = " until it is drained"
    elif told["until_at_ms"] is not None:
        end = f" until {datetime.fromtimestamp(told['until_at_ms'] / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{whose} is {told['mode']}, set by {who}{end}: {it} admits nothing in this mode."


def forget_modes() -> None:
    """After a change here; other processes look again within FRESH_S."""
    global _seen
    _seen = (float("-inf"), {})


def _read(store: Store, fresh_s: float) -> dict[str, dict[str, Any]]:
    global _seen
    at, modes = _seen
    if time.monotonic() - at > fresh_s:
        modes = store.read_modes()
        _seen = (time.monotonic(), modes)
    return modes

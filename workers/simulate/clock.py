"""How are the gate's own scripts run at a time that a simulation names?"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from ..store import Store, scripts

#: What every script asks for the time, and what stands there in a simulation: the time comes as a second key.
_ASKS = "redis.call('TIME')"
_TOLD = "{math.floor(KEYS[2] / 1000), KEYS[2] % 1000 * 1000}"

START_MS = 1_767_225_600_000  # 2026-01-01, after the base of the ready scores


class SteppedStore(Store):
    """A gate whose clock stands still until it is moved. Same scripts, same keys, on a real Redis.

    Give it a gate name of its own: everything under it belongs to the simulation. Only expiries of whole
    keys (histograms after 80 s, idempotency after a day) still run by the server's clock.
    """

    now_ms: int = START_MS

    def _reply(self, name: str, *args: Any) -> bytes:
        text, sha = _stepped(name)
        command = ("EVALSHA", sha, 2, self.root, self.now_ms, *args)
        try:
            return bytes(self.line.call(*command))
        except scripts.NoScriptError:
            return bytes(self.line.call("EVAL", text, *command[2:]))

    def step(self, ms: int) -> None:
        self.now_ms += ms

    def clear(self) -> None:
        """Removes every key of this gate."""
        for name in list(self.client.scan_iter(self.root.replace("{", "[{]") + "*", count=1_000)):
            self.client.delete(name)


@functools.cache
def _stepped(name: str) -> tuple[str, str]:
    text = scripts.source(name)
    if text.count(_ASKS) != 1:
        raise RuntimeError(f"{name} asks for the time {text.count(_ASKS)} times, not once")
    text = text.replace(_ASKS, _TOLD)
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

"""May this process let one more through of a rate limit that each producer counts by itself?

The limit of a queue is divided by the number of live producers, and each keeps to its part. That is not
exact: a process that has just begun, or that the gate has not heard of yet, is not counted; traffic that is
spread unevenly is refused too early; each process lets one job a window through at least.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

#: Tenants or keys of one limit that are remembered; who was silent longest is forgotten and begins anew.
MOST_SUBJECTS: Final = 1000

_BUCKETS: Final = ("token_bucket", "leaky_bucket")


@dataclass(slots=True)
class _State:
    level: float  # of a bucket: tokens
    at_s: float
    log: deque[float] = field(default_factory=deque)  # of a window: when


class LocalLimits:
    """The limits of one queue at this process's part of them."""

    def __init__(self, limits: Sequence[Mapping[str, Any]], *, producers: int) -> None:
        self.limits = [dict(limit) for limit in limits]
        self.producers = max(1, producers)
        self._states: list[OrderedDict[str, _State]] = [OrderedDict() for _ in self.limits]

    def change(self, limits: Sequence[Mapping[str, Any]], *, producers: int) -> None:
        """A new number of producers keeps what was counted; new limits begin anew."""
        if [dict(limit) for limit in limits] != self.limits:
            self.limits = [dict(limit) for limit in limits]
            self._states = [OrderedDict() for _ in self.limits]
        self.producers = max(1, producers)

    def wait_s(self, tenant: str, api_key: str | None, now_s: float) -> float:
        """0 where all of them have room, and then it is used; else the seconds until they have."""
        found = [
            (limit, self._state(i, limit, tenant, api_key, now_s)) for i, limit in enumerate(self.limits)
        ]
        waits = [self._wait(limit, state, now_s) for limit, state in found]
        longest = max(waits, default=0.0)
        if longest <= 0:
            for limit, state in found:
                if limit["kind"] in _BUCKETS:
                    state.level -= 1
                else:
                    state.log.append(now_s)
        return longest

    def _state(
        self, place: int, limit: Mapping[str, Any], tenant: str, api_key: str | None, now_s: float
    ) -> _State:
        subject = {"queue": "", "tenant": tenant, "key": f"{len(tenant)}|{tenant}|{api_key or ''}"}[
            limit["per"]
        ]
        states = self._states[place]
        state = states.get(subject)
        if state is None:
            state = states[subject] = _State(self._burst(limit), now_s)
            if len(states) > MOST_SUBJECTS:
                states.popitem(last=False)
        states.move_to_end(subject)
        return state

    def _burst(self, limit: Mapping[str, Any]) -> float:
        return max(1.0, float(limit.get("burst") or limit["limit"]) / self.producers)

    def _wait(self, limit: Mapping[str, Any], state: _State, now_s: float) -> float:
        window_s = float(limit["window_s"])
        if limit["kind"] in _BUCKETS:
            rate = float(limit["limit"]) / self.producers / window_s
            state.level = min(self._burst(limit), state.level + max(0.0, now_s - state.at_s) * rate)
            state.at_s = now_s
            return 0.0 if state.level >= 1 - 1e-9 else (1 - state.level) / rate
        part = max(1, math.floor(limit["limit"] / self.producers))
        begin = now_s - window_s
        if limit["kind"] == "fixed_window":
            begin = math.floor(now_s / window_s) * window_s - 1e-9
        while state.log and state.log[0] <= begin:
            state.log.popleft()
        if len(state.log) < part:
            return 0.0
        if limit["kind"] == "fixed_window":
            return (math.floor(now_s / window_s) + 1) * window_s - now_s
        return state.log[len(state.log) - part] + window_s - now_s

"""May a failed call be tried again, and when?

Two kinds of return differ. One that the door invited with Retry-After comes when it was asked to, and
costs nothing: the door spreads its invitations over the time that it needs. One that nobody asked for
could turn an outage into a storm: it draws on a budget of a tenth of the calls (as in the Site
Reliability Engineering book), after a wait of which any part may be used (full jitter) and which doubles.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from .errors import DoorError, ProblemError, Refused, Unavailable, Unreachable

#: Answers that a proxy or a crashing server gives; what was asked may have happened.
_UNCERTAIN = frozenset({500, 502, 504})


class RetryBudget:
    """A token bucket: each call adds ``ratio`` of a token, each uninvited retry takes one."""

    def __init__(self, ratio: float = 0.1, *, most: float = 10.0) -> None:
        self._ratio = ratio
        self._most = most
        self._tokens = most
        self._lock = threading.Lock()

    @property
    def tokens(self) -> float:
        return self._tokens

    def note_call(self) -> None:
        with self._lock:
            self._tokens = min(self._most, self._tokens + self._ratio)

    def take(self) -> bool:
        with self._lock:
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


@dataclass(frozen=True, slots=True)
class Retries:
    """``attempts``: most tries of one call that nobody invited, the first included."""

    attempts: int = 4
    base_s: float = 0.2
    cap_s: float = 10.0
    budget: RetryBudget = field(default_factory=RetryBudget)
    draw: Callable[[], float] = random.random

    @classmethod
    def none(cls) -> Retries:
        """Each call once, whatever the answer."""
        return cls(attempts=0)

    def wait_before_next(
        self, error: DoorError, *, uninvited: int, invited: int
    ) -> tuple[float | None, str | None]:
        """Seconds to wait, or None with the reason for giving up (None as reason: it would not help).

        ``uninvited`` tries that ended without an invitation so far, ``invited`` ones that had one.
        """
        if self.attempts == 0 or not is_worth_retrying(error):
            return None, None
        if isinstance(error, ProblemError) and error.retry_after_s is not None:
            # Never earlier than asked; a little later, so that those asked for the same second spread.
            return error.retry_after_s + self._jittered(min(invited, 3)), None
        if uninvited >= self.attempts:
            return None, "attempts"
        if not self.budget.take():
            return None, "budget"
        return self._jittered(uninvited), None

    def _jittered(self, number: int) -> float:
        return self.draw() * min(self.cap_s, self.base_s * 2.0 ** max(0, number))


def is_worth_retrying(error: DoorError) -> bool:
    if isinstance(error, (Refused, Unavailable, Unreachable)):
        return True
    return isinstance(error, ProblemError) and error.status in _UNCERTAIN


def is_certain(error: DoorError) -> bool:
    """Whether the failed call surely had no effect."""
    if isinstance(error, Unreachable):
        return error.is_certain
    return not (isinstance(error, ProblemError) and error.status in _UNCERTAIN)

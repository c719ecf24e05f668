"""Does Redis still have the policies and modes that the database holds?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..actions.bootstrap import restore_gate
from ..store import Store

INTERVAL_S = 2.0


class Publisher:
    """Puts back what Redis lost; a cheap comparison when it lost nothing."""

    def __init__(self, store: Store, *, restore: Callable[[Store], Any] = restore_gate) -> None:
        self._store = store
        self._restore = restore

    def tick(self) -> bool:
        self._restore(self._store)
        return False

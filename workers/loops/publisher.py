"""Does Redis still have the policies and modes that the database holds?"""

from __future__ import annotations

from ..actions import name_server
from ..actions.bootstrap import prepare_database, restore_gate
from ..store import Store

INTERVAL_S = 3.0


class Publisher:
    """Puts back what Redis lost; a cheap comparison when it lost nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._prepared = False

    def tick(self) -> bool:
        if not self._prepared:
            prepare_database()  # a monitor that is started alone finds its policies and rules
        restore_gate(self._store)
        if not self._prepared:
            name_server.execute()
            self._prepared = True
        return False

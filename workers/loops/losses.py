"""Is a loss of Redis's data written down, even if the database is away at that moment?"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

from ..actions import note_loss
from ..metrics.loss import Loss, compare, say_loss

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 1.0
UNWRITTEN_MAX = 20


class Losses:
    def __init__(self) -> None:
        self._unwritten: deque[Loss] = deque(maxlen=UNWRITTEN_MAX)

    def compare(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Called by the sampler with each pair of snapshots; never waits."""
        loss = compare(before, after)
        if loss is not None:
            log.error("%s", say_loss(loss.as_dict()))
            self._unwritten.append(loss)

    def write(self) -> bool:
        while self._unwritten:
            note_loss.execute(self._unwritten[0])  # a database that is away raises: tried again
            self._unwritten.popleft()
        return False

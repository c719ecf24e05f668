"""What about the ground that the gate stands on must an operator know? A line each, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..metrics.loss import say_loss
from ..store.durability import find_unmet
from .wording import put_number


@dataclass(frozen=True, slots=True)
class Notice:
    """``kind`` is its identity: since when is counted by it."""

    kind: str
    text: str
    since_at_ms: int | None = None  # None: since it was first seen

    def as_dict(self, since_at_ms: int) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text, "since_at_ms": since_at_ms}


DATABASE_WORDS = {
    "away": "The database cannot be read",
    "unwritable": "The database cannot be written",
    "slow": "The database does not answer",
}


def find_notices(
    *,
    redis: Mapping[str, Any],
    database: Mapping[str, Any],
    uncopied: int,
    wish: str = "",
    loss: Mapping[str, Any] | None = None,
) -> list[Notice]:
    """``redis`` is the store's health, ``database`` that of DatabaseHealth, ``uncopied`` the spool.

    ``wish`` is the durability asked for, empty where none was; ``loss`` what was lost (Loss.as_dict).
    """
    found = []
    if loss is not None:
        found.append(Notice("lost", say_loss(loss), int(loss["found_at_ms"])))
    if unmet := find_unmet(wish, redis):
        found.append(Notice("durability", f"{unmet}."))
    if redis.get("policy") not in (None, "noeviction"):
        found.append(
            Notice(
                "eviction",
                f"Redis may evict what was accepted (maxmemory-policy is {redis['policy']}): "
                "set maxmemory-policy noeviction.",
            )
        )
    if said := DATABASE_WORDS.get(str(database.get("state"))):
        detail = f" ({database['detail']})" if database.get("detail") else ""
        waiting = f"; {put_number(uncopied)} quarantined jobs wait in Redis to be copied" if uncopied else ""
        found.append(
            Notice(
                "database",
                f"{said}{detail}. The gate goes on without it: jobs are admitted, run and settled{waiting}.",
                database.get("since_at_ms"),
            )
        )
    return found

"""How does an action come into the journal, whether it was done, refused or failed?"""

from __future__ import annotations

from typing import Any

from ..models import JournalEntry
from ..quarantine.arguments import storable
from .actor import Actor, NotPermitted

DONE, REFUSED, FAILED = "done", "refused", "failed"


def write_entry(
    actor: Actor,
    verb: str,
    *,
    target: str = "",
    reason: str = "",
    before: Any = None,
    after: Any = None,
    outcome: str = DONE,
) -> JournalEntry:
    # What a stranger typed at the door stands here too: it must not cost the entry, nor an answer.
    entry: JournalEntry = JournalEntry.objects.create(
        actor=storable(actor.name)[:150],
        role=actor.role[:20],
        via=actor.via[:20],
        address=actor.address[:64],
        verb=storable(verb),
        target=storable(target)[:300],
        reason=storable(reason)[:2000],
        before=before,
        after=after,
        outcome=outcome,
    )
    return entry


def require_role(actor: Actor, role: str, verb: str, *, target: str = "", reason: str = "") -> None:
    if actor.may(role):
        return
    write_entry(actor, verb, target=target, reason=reason, outcome=REFUSED)
    raise NotPermitted(actor, verb, role)

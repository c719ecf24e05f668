"""Which name was meant, where one is given that nobody knows? Pure."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from itertools import islice
from typing import Final

TOLD: Final = 8  # names in one sentence
#: To compare with each of ten thousand would take longer than all the rest of the answer.
COMPARED: Final = 500
LONGEST: Final = 100  # characters of a name that are shown or compared


def find_nearest(wanted: str, known: Collection[str], *, most: int = 3) -> list[str]:
    """The known names that look most like it, the nearest first."""
    return get_close_matches(wanted[:LONGEST], islice(sorted(known), COMPARED), most)


def tell_known(wanted: str, known: Collection[str]) -> str:
    """A clause that helps: all the names where they are few, else those that are near."""
    if not known:
        return "none is known yet"
    if len(known) <= TOLD:
        return f"known: {', '.join(sorted(known))}"
    near = find_nearest(wanted, known)
    return f"nearest of {len(known)}: {', '.join(near)}" if near else f"{len(known)} are known"


def tell_no_queue(queue: str, known: Collection[str]) -> str:
    return f"There is no queue {queue[:LONGEST]!r} with a policy ({tell_known(queue, known)})."


def tell_no_downstream(name: str, known: Collection[str]) -> str:
    return f"There is no downstream {name[:LONGEST]!r} ({tell_known(name, known)})."

"""What does a payload's class decide? One row a class; the table in docs/privacy.md is this one.

The class comes with the offer, else from what the operation descends from, else from the policy of its queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PUBLIC, INTERNAL, PERSONAL, SECRET = PAYLOAD_CLASSES = ("public", "internal", "personal", "secret")
DEFAULT_CLASS: Final = INTERNAL

DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Handling:
    """``shows``: values (but for those that a name gives away), names of arguments only, or nothing.

    ``result_kept_s`` and ``payload_kept_s`` (in quarantine) None: as long as the settings and the queue's
    policy say. ``error_text`` is whether message and traceback of a failure may be shown unasked.
    """

    shows: str
    error_text: bool
    revealed_to: str
    result_kept_s: int | None
    payload_kept_s: int | None
    needs_encryption: bool


RULES: Final[Mapping[str, Handling]] = {
    PUBLIC: Handling("values", True, "operator", None, None, False),
    INTERNAL: Handling("names", True, "operator", None, None, False),
    PERSONAL: Handling("names", False, "operator", 900, 7 * DAY_S, False),
    SECRET: Handling("nothing", False, "admin", 300, DAY_S, True),
}


def handling_of(payload_class: str | None) -> Handling:
    """The rule for a class; a word that is not known is handled as the strictest."""
    return RULES.get(payload_class or DEFAULT_CLASS, RULES[SECRET])


def is_payload_class(word: object) -> bool:
    return isinstance(word, str) and word in RULES

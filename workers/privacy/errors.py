"""How is what a failure said kept and told? Where its class withholds the words, encrypted as its payload is.

A class that withholds them (``classes.RULES``) has its message and traceback sealed together, bound to the
operation's id; without ``SLUICEGATE_PAYLOAD_KEYS`` they stay as they are, as payloads do.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final

from .classes import RULES, handling_of
from .redact import REDACTED, redact_error
from .seal import keyring, unseal

SEALED: Final = "sealed"  # field of a stored error that holds the ciphertext, as base64
#: Classes whose error texts are told to nobody unasked, searched by nobody, and encrypted.
WITHHELD: Final = tuple(name for name, handling in RULES.items() if not handling.error_text)


def seal_words(message: str, traceback: str, *, payload_class: str | None, op_id: str) -> bytes:
    """The ciphertext; empty where the class tells its words, where there are none, or without keys."""
    if handling_of(payload_class).error_text or not (message or traceback) or not keyring():
        return b""
    words = json.dumps([message, traceback], ensure_ascii=False).encode("utf-8", "surrogatepass")
    return keyring().seal(words, _about(op_id))


def open_words(sealed: bytes, op_id: str) -> tuple[str, str]:
    """Message and traceback.

    Raises:
        ValueError: they cannot be decrypted here; the message says which key it needs.
    """
    message, traceback = json.loads(unseal(sealed, _about(op_id)).decode("utf-8", "surrogatepass"))
    return str(message), str(traceback)


def reseal_words(sealed: bytes, op_id: str) -> bytes | None:
    """The same under the first key; None where it cannot be opened here."""
    try:
        return keyring().seal(keyring().open(sealed, _about(op_id)), _about(op_id))
    except ValueError:
        return None


def seal_error(error: dict[str, str], payload_class: str | None, op_id: str) -> dict[str, str]:
    """An error as a worker tells it to the gate: its type in clear, its words as their class has it."""
    sealed = seal_words(error["message"], error["traceback"], payload_class=payload_class, op_id=op_id)
    if not sealed:
        return error
    return {"type": error["type"], "message": "", "traceback": "", SEALED: base64.b64encode(sealed).decode()}


def sealed_of(error: Mapping[str, str]) -> bytes:
    """The ciphertext of a stored error; empty where it has none."""
    try:
        return base64.b64decode(error.get(SEALED) or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def open_error(error: Mapping[str, str], op_id: str) -> dict[str, str]:
    """Type, message and traceback of a stored error.

    Raises:
        ValueError: as ``open_words``.
    """
    sealed = sealed_of(error)
    if not sealed:
        return {name: str(value) for name, value in error.items() if name != SEALED}
    message, traceback = open_words(sealed, op_id)
    return {"type": str(error.get("type") or ""), "message": message, "traceback": traceback}


def tell_error(
    error: Mapping[str, str] | None, payload_class: str | None, op_id: str
) -> dict[str, str] | None:
    """As ``redact_error``, of an error that may be sealed; without its places where the key is not here."""
    if not error:
        return None
    try:
        return redact_error(open_error(error, op_id), payload_class)
    except ValueError:
        return {"type": str(error.get("type") or ""), "message": REDACTED, "traceback": ""}


def _about(op_id: str) -> str:
    """What the ciphertext is bound to: this operation's error, not its payload."""
    return f"{op_id}:error"

"""With which arguments was a job sent? Read as text, never unpickled; shown as its class allows."""

from __future__ import annotations

import base64
import json
from typing import Any

from ..privacy.classes import handling_of
from ..privacy.redact import REDACTED, render_arguments, scrub_text
from ..privacy.seal import unseal

SHOWN_CHARS = 4_000
READ_BYTES = 2_000_000  # a larger body is shown as its beginning


def describe_arguments(payload: bytes, payload_class: str, op_id: str = "") -> str:
    """args and kwargs as JSON, redacted; of what is no message the text, where its class shows values."""
    if not payload:
        return ""
    try:
        payload = unseal(payload, op_id)
    except ValueError:
        return REDACTED  # its key is not here, or it is not what was sealed
    found = read_arguments(payload)
    if found is not None:
        return cut(render_arguments(*found, payload_class))
    if handling_of(payload_class).shows != "values":
        return REDACTED
    return cut(scrub_text(payload[:READ_BYTES].decode("utf-8", "backslashreplace")))


def read_arguments(payload: bytes) -> tuple[Any, Any] | None:
    """args and kwargs of a stored message, None where it is none that can be read."""
    try:
        message = json.loads(payload[:READ_BYTES])
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    decoded = decode_body(message.get("b", message.get("body")))
    if isinstance(decoded, list) and len(decoded) >= 2:
        return decoded[0], decoded[1]
    return None


def decode_body(body: Any) -> Any:
    """The body as data, None if it is not JSON (base64 of it, or plain)."""
    if not isinstance(body, str):
        return body if isinstance(body, list) else None
    for raw in (_from_base64(body), body):
        if raw is not None:
            try:
                return json.loads(raw)
            except ValueError:
                continue
    return None


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}… ({len(text)} characters)"


def storable(text: str) -> str:
    """Text that every database takes: no NUL, no lone surrogate."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")

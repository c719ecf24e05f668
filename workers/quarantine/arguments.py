"""With which arguments was a held job sent? Read as text, never unpickled."""

from __future__ import annotations

import base64
import json
from typing import Any

SHOWN_CHARS = 4_000
READ_BYTES = 2_000_000  # a larger body is shown as its beginning


def describe_arguments(payload: bytes) -> str:
    """args and kwargs as JSON where the body is JSON; else what can be said of the bytes."""
    try:
        message = json.loads(payload[:READ_BYTES]) if payload else None
    except ValueError:
        return cut(payload[:SHOWN_CHARS].decode("utf-8", "backslashreplace"))
    if not isinstance(message, dict):
        return cut(payload[:SHOWN_CHARS].decode("utf-8", "backslashreplace"))
    body = message.get("b", message.get("body"))
    decoded = decode_body(body)
    if isinstance(decoded, list) and len(decoded) >= 2:
        return cut(json.dumps({"args": decoded[0], "kwargs": decoded[1]}, ensure_ascii=False))
    return cut(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False))


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

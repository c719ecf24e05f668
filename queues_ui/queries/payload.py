"""How is a revealed payload shown without being trusted? As text, escaped and capped, never unpickled."""

from __future__ import annotations

import base64
from typing import Any, Final

LARGEST_SHOWN: Final = 64 * 1024


def show_payload(payload: bytes) -> dict[str, Any]:
    """Text where it is UTF-8, else with the odd bytes escaped; and the bytes themselves in base64."""
    raw = bytes(payload)
    head = raw[:LARGEST_SHOWN]
    return {
        "bytes": len(raw),
        "shown_bytes": len(head),
        "text": head.decode("utf-8", "backslashreplace"),
        "base64": base64.b64encode(head).decode(),
    }

"""What do replies look like that a script packed, or that Redis gave as pairs?"""

from __future__ import annotations

from typing import Any


def as_text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def as_rows(value: Any) -> list[Any]:
    # An empty Lua table packs as an empty map.
    return list(value) if value else []


def as_pairs(flat: Any) -> list[tuple[Any, Any]]:
    if flat and isinstance(flat[0], (list, tuple)):
        return [(a, b) for a, b in flat]
    return list(zip(flat[::2], flat[1::2], strict=True))


def as_texts(row: Any) -> dict[str, str]:
    if isinstance(row, dict):
        return {as_text(k): as_text(v) for k, v in row.items()}
    return {as_text(k): as_text(v) for k, v in as_pairs(row or [])}


def as_numbers(row: Any) -> dict[str, float]:
    return {name: float(value) for name, value in dict(row or {}).items()}

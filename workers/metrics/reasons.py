"""Why is a value null? The reason stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def null_reasons(part: Mapping[str, Any], reasons: Mapping[str, str]) -> dict[str, str]:
    """The reasons of those values that are null."""
    return {name: reason for name, reason in reasons.items() if part.get(name) is None}


def explain_nulls(part: Mapping[str, Any], reasons: Mapping[str, str]) -> dict[str, Any]:
    """The part, with `unknown` saying why wherever one of these values is null."""
    unknown = null_reasons(part, reasons)
    return {**part, "unknown": unknown} if unknown else dict(part)


def explain_bounds(bounds: Mapping[str, Any]) -> dict[str, Any]:
    return explain_nulls(bounds, dict.fromkeys(bounds, "no bound"))

"""What may be said of a downstream: how is its limit found, and between which bounds?

A downstream is something that jobs call and that has a capacity of its own: a database, a bank's API.
How many jobs may call it at once is not set but found, over all workers together, by
``store/lua/includes/downstream.lua``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from ..exceptions import FieldError
from ..figures import is_number

KINDS: Final = ("aimd", "gradient")

#: A name stands in keys, addresses and metrics.
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}")


class DownstreamError(FieldError):
    """Settings that cannot hold."""


@dataclass(frozen=True, slots=True)
class Downstream:
    """Settings of one downstream. Limits are calls at a time, over all processes."""

    kind: str = "aimd"  # aimd: one more, or a cut; gradient: by latency against its own long mean
    target_ms: int = 1_000  # a mean latency above this means that too many call at once
    min: int = 1
    max: int = 100
    initial: int = 4
    window_ms: int = 1_000  # shortest time between two changes of the limit
    backoff: float = 0.9  # what a cut leaves of the limit

    def as_fields(self) -> dict[str, Any]:
        return asdict(self)


FIELDS: Final = tuple(f.name for f in fields(Downstream))

#: (least, most, whole) of each number.
_RANGES: Final[dict[str, tuple[float, float, bool]]] = {
    "target_ms": (1, 3_600_000, True),
    "min": (1, 100_000, True),
    "max": (1, 100_000, True),
    "initial": (1, 100_000, True),
    "window_ms": (100, 3_600_000, True),
    "backoff": (0.5, 0.99, False),
}


def parse_downstream(changes: Mapping[str, Any], *, base: Downstream | None = None) -> Downstream:
    """Settings from the API, the page or the command line; what is not named keeps its value in ``base``.

    Raises:
        DownstreamError: a field is unknown, out of its range, or does not go with another.
    """
    found = replace(base or Downstream(), **{name: _read(name, value) for name, value in changes.items()})
    if found.min > found.max:
        raise DownstreamError("min", "is above max", f"use at most {found.max}")
    if not found.min <= found.initial <= found.max:
        raise DownstreamError("initial", "is not between min and max", f"use {found.min} to {found.max}")
    return found


def _read(name: str, value: Any) -> Any:
    if name == "kind":
        if value not in KINDS:
            raise DownstreamError(name, f"must be one of {', '.join(KINDS)}, not {value!r}"[:200])
        return value
    if name not in _RANGES:
        raise DownstreamError(
            str(name)[:60], "is not a field of a downstream", f"the fields are {', '.join(FIELDS)}"
        )
    low, high, whole = _RANGES[name]
    if not is_number(value):
        raise DownstreamError(name, f"must be a number, not {value!r}"[:200])
    if whole and value != int(value):
        raise DownstreamError(name, f"must be a whole number, not {value!r}")
    if not low <= value <= high:
        raise DownstreamError(name, f"must be {low:g} to {high:g}, not {value!r}")
    return int(value) if whole else float(value)

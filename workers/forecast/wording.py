"""How is a number put in words? The one place that knows units, so that it reads the same everywhere."""

from __future__ import annotations

NBSP = "\u00a0"
MINUS = "\u2212"


def put_duration(seconds: float) -> str:
    """Two units at most, no zero part: "4 min 10 s", "3 h 12 min", "11 min"."""
    if seconds <= 0:
        return f"0{NBSP}s"
    if seconds < 0.05:
        return f"less than 0.1{NBSP}s"
    if seconds < 1:
        return f"{max(0.0, seconds):.1f}{NBSP}s"
    if seconds < 10 and round(seconds, 1) != round(seconds):
        return f"{seconds:.1f}{NBSP}s"
    whole = round(seconds)
    for size, unit, lesser, name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            major, rest = divmod(whole, size)
            minor = rest // lesser
            return f"{major}{NBSP}{unit}" + (f" {minor}{NBSP}{name}" if minor else "")
    return f"{whole}{NBSP}s"


def put_number(value: float) -> str:
    whole = round(value)
    return f"{MINUS}{-whole:,}" if whole < 0 else f"{whole:,}"


def put_share(share: float) -> str:
    return f"{round(100 * share)}{NBSP}%"


def put_rate(per_s: float) -> str:
    """Jobs a second, with the unit's name: a bare "58.2 /s" leaves open of what."""
    return f"{per_s:,.0f}{NBSP}jobs/s" if per_s >= 1000 else f"{per_s:.1f}{NBSP}jobs/s"


def put_bytes(value: float) -> str:
    """Three figures in KiB, MiB or GiB; a whole size, as bounds are, without decimals."""
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= size:
            amount = value / size
            digits = 0 if amount >= 100 or amount.is_integer() else 1 if amount >= 10 else 2
            return f"{amount:.{digits}f}{NBSP}{unit}"
    return f"{round(value)}{NBSP}B"


def join_names(names: list[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"

"""How are waits and service times counted in a few numbers, and read back as percentiles?"""

from __future__ import annotations

import math
from collections.abc import Mapping

#: Each bin is 7 % wider than the one before, so a percentile is off by at most 3.5 %.
GROWTH = 1.07


def bin_of_ms(ms: float) -> int:
    """The bin that a duration falls into; the same sum as ``observe`` in base.lua."""
    return int(math.log(max(0.0, ms) + 1) / math.log(GROWTH))


def bin_value_ms(bin_number: int) -> float:
    """The middle of a bin in ms (geometric mean of its edges)."""
    return float(max(0.0, GROWTH ** (bin_number + 0.5) - 1))


def percentile_ms(bins: Mapping[int, int], share: float) -> float | None:
    """The value below which ``share`` (0 to 1) of the observations lie; None without observations."""
    total = sum(bins.values())
    if total == 0:
        return None
    wanted = share * total
    seen = 0
    for number in sorted(bins):
        seen += bins[number]
        if seen >= wanted:
            return bin_value_ms(number)
    return None

"""Is a value from outside a number that can be reckoned with?"""

from __future__ import annotations

import math
from typing import Any, TypeGuard


def is_number(value: Any) -> TypeGuard[int | float]:
    """An int or a float, neither a bool nor nan nor infinite; an int too large for a float is one too."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf

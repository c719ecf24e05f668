"""Which settings of a downstream can hold?"""

from __future__ import annotations

import pytest

from workers.limits.downstream import Downstream, DownstreamError, parse_downstream


def test_what_is_not_named_keeps_its_value() -> None:
    base = parse_downstream({"target_ms": 200, "max": 50})
    assert parse_downstream({"kind": "gradient"}, base=base) == Downstream("gradient", 200, max=50)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "vegas"}, "kind"),
        ({"kind": ["aimd"]}, "kind"),
        ({"target_ms": 0}, "target_ms"),
        ({"target_ms": 1.5}, "target_ms"),
        ({"target_ms": True}, "target_ms"),
        ({"target_ms": float("nan")}, "target_ms"),
        ({"min": 9, "max": 8}, "min"),
        ({"initial": 200}, "initial"),
        ({"backoff": 1}, "backoff"),
        ({"limit": 3}, "limit"),
        ({"min": None}, "min"),
    ],
)
def test_what_cannot_hold_is_named(changes: dict[str, object], field: str) -> None:
    with pytest.raises(DownstreamError) as fault:
        parse_downstream(changes)
    assert fault.value.field == field

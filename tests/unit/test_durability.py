"""Is the boundary read from the server, and a wish that it does not meet told with its fix?"""

from __future__ import annotations

from typing import Any

import pytest

from workers.forecast.notices import find_notices
from workers.store.durability import WORDS, boundary_of, find_unmet


@pytest.mark.parametrize(
    ("aof", "fsync", "boundary"),
    [
        (0, "always", "memory"),  # a setting of a file that is not written
        (1, "always", "always"),
        (1, "everysec", "everysec"),
        (1, "no", "memory"),
        (1, None, "unknown"),
        (0, None, "memory"),
    ],
)
def test_the_boundary_is_what_the_settings_amount_to(aof: int, fsync: str | None, boundary: str) -> None:
    assert boundary_of({"aof_enabled": aof}, fsync) == boundary


@pytest.mark.parametrize(
    ("wish", "health", "said"),
    [
        ("always", {"durability": "always", "aof": True}, ""),
        ("everysec", {"durability": "always", "aof": True}, ""),
        ("memory", {"durability": "memory", "aof": False}, ""),
        ("always", {"durability": "everysec", "aof": True}, "set appendfsync always"),
        ("everysec", {"durability": "memory", "aof": False}, "set appendonly yes"),
        ("always", {"durability": "unknown", "aof": True}, "CONFIG GET is denied"),
        ("replica", {"durability": "everysec", "aof": True, "replicas": 0}, "no replica is connected"),
        ("replica", {"durability": "memory", "aof": False, "replicas": 1}, ""),
        ("", {"durability": "memory", "aof": False}, ""),
    ],
)
def test_a_wish_that_is_not_met_is_told_with_its_fix(wish: str, health: dict[str, Any], said: str) -> None:
    told = find_unmet(wish, {"state": "ok", **health})
    assert said in told and bool(told) == bool(said)
    notices = find_notices(redis={"state": "ok", **health}, database={}, uncopied=0, wish=wish)
    assert [notice.kind for notice in notices] == (["durability"] if said else [])


@pytest.mark.parametrize("wish", WORDS)
def test_nothing_is_said_of_a_server_that_does_not_answer(wish: str) -> None:
    assert find_unmet(wish, {"state": "down"}) == ""

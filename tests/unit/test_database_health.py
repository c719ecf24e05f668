"""Is the worst that the loops saw of the database told, with since when?"""

from __future__ import annotations

import pytest
from django.db import InterfaceError, OperationalError

from workers.forecast.notices import find_notices
from workers.loops import database_health
from workers.loops.database_health import READING, DatabaseHealth


class Clock:
    ms = 1_000

    def __call__(self) -> int:
        return self.ms


def fail(health: DatabaseHealth, purpose: str, fault: Exception) -> None:
    with pytest.raises(type(fault)), health.attempt(purpose):
        raise fault


def test_trouble_is_told_from_its_first_failure_until_that_purpose_succeeds() -> None:
    clock = Clock()
    health = DatabaseHealth(clock)
    assert health.current()["state"] == "unknown"
    with health.attempt(READING):
        pass
    assert health.current() == {"state": "ok", "detail": "", "since_at_ms": None}
    fail(health, "history", OperationalError("database is locked"))
    clock.ms = 9_000
    fail(health, "history", OperationalError("database or disk is full"))
    assert health.current() == {
        "state": "unwritable",
        "detail": "database or disk is full",
        "since_at_ms": 1_000,
    }
    with health.attempt(READING):  # that it can be read mends no writing
        pass
    assert health.current()["state"] == "unwritable"
    with health.attempt("history"):
        pass
    assert health.current()["state"] == "ok"


def test_a_database_that_cannot_be_read_is_away_whatever_else() -> None:
    health = DatabaseHealth(Clock())
    fail(health, "history", OperationalError("locked"))
    fail(health, READING, InterfaceError("the connection is closed\nHINT: look"))
    assert health.current()["state"] == "away"
    assert health.current()["detail"] == "the connection is closed"


def test_an_attempt_that_does_not_end_is_told_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    health = DatabaseHealth(Clock())
    with health.attempt("recording"):
        assert health.current()["state"] == "unknown"
        monkeypatch.setattr(database_health, "SLOW_AFTER_S", -1.0)
        assert health.current() == {
            "state": "slow",
            "detail": "it has not answered yet",
            "since_at_ms": 1_000,
        }
    with health.attempt(READING):
        pass
    assert health.current()["state"] == "ok"


@pytest.mark.parametrize(("state", "said"), [("away", "cannot be read"), ("unwritable", "cannot be written")])
def test_a_notice_says_what_goes_on_and_what_waits(state: str, said: str) -> None:
    database = {"state": state, "detail": "disk full", "since_at_ms": 5}
    (notice,) = find_notices(redis={"state": "ok"}, database=database, uncopied=1200)
    assert said in notice.text and "(disk full)" in notice.text and "The gate goes on" in notice.text
    assert "1,200 quarantined jobs wait" in notice.text
    assert find_notices(redis={"state": "ok"}, database={"state": "ok"}, uncopied=3) == []

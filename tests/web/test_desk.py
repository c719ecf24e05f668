"""Does the door go on by what it knew while the database fails or hangs?"""

from __future__ import annotations

import threading
import time

import pytest
from django.db import OperationalError
from django.test import RequestFactory

from queues_ui.access import caller as caller_module
from queues_ui.access.away import needs_database, tell_away
from queues_ui.access.caller import Caller
from queues_ui.access.desk import DatabaseAway, Desk


def test_a_question_that_hangs_is_given_up_and_the_next_are_told_at_once() -> None:
    desk, released = Desk(), threading.Event()
    began = time.monotonic()
    with pytest.raises(DatabaseAway, match="has not answered"):
        desk.ask(released.wait, within_s=0.1)
    assert desk.since is not None
    for _ in range(50):
        with pytest.raises(DatabaseAway, match="a moment ago"):
            desk.ask(lambda: 1)
    assert time.monotonic() - began < 3.0  # not fifty times a tenth of a second
    released.set()
    desk._quiet_until = 0.0
    assert desk.ask(lambda: 7) == 7
    assert desk.since is None and desk.has_served


def test_threads_that_hang_are_bounded() -> None:
    desk, released = Desk(), threading.Event()
    for _ in range(6):
        desk._quiet_until = 0.0
        with pytest.raises(DatabaseAway):
            desk.ask(released.wait, within_s=0.05)
    desk._quiet_until = 0.0
    noted: list[int] = []
    desk.hand_over(lambda: noted.append(1))
    assert noted == []  # no room: left out rather than waited for
    released.set()


def test_a_key_is_taken_at_its_last_word_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Caller("key sg", "operator", frozenset({"submit"}), "api")

    class Away(Desk):
        def ask(self, look_up: object, **more: object) -> None:
            raise DatabaseAway("gone")

    monkeypatch.setattr(caller_module, "desk", Away())
    monkeypatch.setattr(caller_module, "_known_keys", {})
    with pytest.raises(DatabaseAway):
        caller_module.caller_of_key("sg_never_seen_before_0123456789")
    secret = "sg_seen_before_0123456789"
    mark = caller_module.digest(secret)
    for ago_s, taken in ((30.0, True), (caller_module.KEPT_WHILE_AWAY_S + 1, False)):
        caller_module._known_keys[mark] = (time.monotonic() - ago_s, known)
        if taken:
            found = caller_module.caller_of_key(secret, address="::1")
            assert found is not None and (found.name, found.address) == ("key sg", "::1")
        else:
            with pytest.raises(DatabaseAway):
                caller_module.caller_of_key(secret)


@pytest.mark.parametrize(
    ("path", "key", "needed"),
    [
        ("/api/v1/jobs", "Bearer k", False),
        ("/api/v1/queues", "Bearer k", False),
        ("/api/v1/queues", "", True),
        ("/api/v1/quarantine", "Bearer k", True),
        ("/quarantine/", "", True),
        ("/readyz", "", False),
    ],
)
def test_only_what_reads_the_database_asks_for_it(path: str, key: str, needed: bool) -> None:
    headers = {"Authorization": key} if key else {}
    assert needs_database(RequestFactory().get(path, headers=headers)) is needed


def test_who_comes_meanwhile_is_told_since_when_and_what_goes_on() -> None:
    page = tell_away(RequestFactory().get("/quarantine/"), OperationalError("gone"))
    assert (page.status_code, page["Retry-After"]) == (503, "5")
    assert b"The database has not answered since" in page.content and b"The gate goes on" in page.content
    problem = tell_away(RequestFactory().get("/api/v1/journal"), OperationalError("gone"))
    assert problem.status_code == 503 and b'"why": "database"' in problem.content

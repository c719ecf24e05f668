"""Do alerts open, clear and outlive a change of leader, and is everybody told once?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection

from workers.alerts.delivery import Delivered, Message
from workers.alerts.ledger import MOST
from workers.loops.alerter import Alerter, record_delivery
from workers.loops.facts import alert_item
from workers.loops.frame.alerts import alerts_part
from workers.loops.frame.inputs import DatabaseFacts
from workers.models import Alert, AlertDelivery, AlertRule

pytestmark = pytest.mark.database

TARGET = "json://user:secret@hooks.example/x"


class Bench:
    """Frames made by hand, and a courier that keeps what it is given."""

    def __init__(self) -> None:
        self.at_ms, self.age_ms, self.posted = 1_000_000, 0, list[Message]()
        self.mode, self.redis = "normal", "ok"  # "failed": Redis answers nothing
        self.alerter = self.restart()

    def restart(self) -> Alerter:
        self.alerter = Alerter(
            self.latest,
            installation="test",
            courier=self,  # type: ignore[arg-type]
            outage=lambda: self.at_ms if self.redis == "failed" else None,
        )
        return self.alerter

    def post(self, message: Message) -> bool:
        self.posted.append(message)
        return True

    def try_again(self, is_wanted: Callable[[Message], bool]) -> None:
        self.is_wanted = is_wanted

    def latest(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        if self.redis != "ok":
            return None
        row = {
            "name": "normal",
            "oldest_age_ms": self.age_ms,
            "depth": 1,
            "consumers": 1,
            "rates": {"shed": 0.0, "refused": 0.0},
        }
        quarantine = {"count": 0, "oldest_age_ms": 0, "by_queue": {}}
        return {"at_ms": self.at_ms, "mode": self.mode, "queues": [row], "quarantine": quarantine}, {}

    def play(self, seconds: int, *, age_s: float) -> None:
        self.age_ms = round(age_s * 1000)
        for _ in range(seconds):
            self.at_ms += 1000
            self.alerter.read()
            self.alerter.tick()
            self.alerter.write()


@pytest.fixture
def rule(db: None) -> AlertRule:
    return AlertRule.objects.create(
        name="normal-age",
        queue="normal",
        measure="oldest_age_s",
        threshold=30,
        clear_threshold=15,
        for_s=5,
        targets=[TARGET],
        runbook="Look at the workers.",
    )


@pytest.fixture
def bench(rule: AlertRule) -> Bench:
    return Bench()


def test_an_alert_opens_once_tells_its_target_keeps_its_peak_and_clears(bench: Bench) -> None:
    bench.play(4, age_s=40)
    assert Alert.objects.count() == 0
    bench.play(10, age_s=55)
    alert = Alert.objects.get()
    assert (alert.queue, alert.value, alert.peak, alert.cleared_at_ms) == ("normal", 55.0, 55.0, None)
    bench.play(2, age_s=70)
    bench.play(5, age_s=20)
    alert.refresh_from_db()
    assert (alert.peak, alert.cleared_at_ms) == (70.0, None)
    bench.play(1, age_s=10)
    alert.refresh_from_db()
    assert alert.cleared_at_ms == bench.at_ms
    assert [message.kind for message in bench.posted] == ["fired", "cleared"]
    assert "Look at the workers." in bench.posted[0].body
    assert bench.posted[1].body.startswith("No longer so. At its worst: normal: the oldest job has waited 1")


def test_a_new_leader_goes_on_with_what_is_open_and_tells_nobody_twice(bench: Bench) -> None:
    bench.play(10, age_s=40)
    record_delivery(Delivered(bench.posted[0], True, "fired: delivered"))
    bench.restart()
    bench.play(10, age_s=40)
    assert Alert.objects.count() == 1
    assert len(bench.posted) == 1


def test_a_new_leader_tells_a_target_that_was_never_reached(bench: Bench) -> None:
    bench.play(10, age_s=40)
    bench.restart()
    bench.play(1, age_s=40)
    assert [message.kind for message in bench.posted] == ["fired", "fired"]


def test_a_new_leader_tells_a_target_that_did_not_take_it(bench: Bench) -> None:
    bench.play(10, age_s=40)
    record_delivery(Delivered(bench.posted[0], False, "fired: the target did not take it"))
    bench.restart()
    bench.play(1, age_s=40)
    assert [message.kind for message in bench.posted] == ["fired", "fired"]


def test_who_was_not_reached_is_still_told_while_it_fires_is_not_snoozed_and_has_that_target(
    bench: Bench,
) -> None:
    bench.play(10, age_s=40)
    fired = bench.posted[0]
    assert bench.is_wanted(fired)
    Alert.objects.update(snoozed_until_at_ms=bench.at_ms + 3_600_000)
    bench.play(1, age_s=40)
    assert not bench.is_wanted(fired)
    Alert.objects.update(snoozed_until_at_ms=None)
    bench.play(1, age_s=40)
    assert bench.is_wanted(fired)
    AlertRule.objects.update(targets=["json://other.example"])
    bench.play(1, age_s=40)
    assert not bench.is_wanted(fired)
    AlertRule.objects.update(targets=[TARGET])
    bench.play(1, age_s=1)
    assert not bench.is_wanted(fired)
    assert bench.is_wanted(bench.posted[-1]) and bench.posted[-1].kind == "cleared"


def test_a_snoozed_alert_clears_in_silence(bench: Bench) -> None:
    bench.play(10, age_s=40)
    Alert.objects.update(snoozed_until_at_ms=bench.at_ms + 3_600_000)
    bench.play(1, age_s=1)
    assert Alert.objects.get().cleared_at_ms is not None
    assert [message.kind for message in bench.posted] == ["fired"]


def test_a_rule_that_is_switched_off_closes_its_alert(bench: Bench, rule: AlertRule) -> None:
    bench.play(10, age_s=40)
    AlertRule.objects.update(enabled=False)
    bench.play(1, age_s=40)
    assert Alert.objects.get().cleared_at_ms == bench.at_ms


def test_a_delivery_is_kept_without_what_opens_the_target(bench: Bench) -> None:
    bench.play(10, age_s=40)
    record_delivery(Delivered(bench.posted[0], False, "fired: the target did not take it"))
    kept = AlertDelivery.objects.get()
    assert (kept.target, kept.ok) == ("json://hooks.example/…", False)
    assert "secret" not in str(kept.__dict__)


class Away:
    """A database that answers nothing, as Django tells it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch = monkeypatch

    def begin(self) -> None:
        def refuse(*args: Any, **kwargs: Any) -> None:
            raise OperationalError("the server is gone")

        self.patch.setattr(connection, "cursor", refuse)
        self.patch.setattr(connection, "chunked_cursor", refuse)

    def end(self) -> None:
        self.patch.undo()


@pytest.fixture
def away() -> Iterator[Away]:
    with pytest.MonkeyPatch.context() as patch:
        yield Away(patch)


def test_an_alert_fires_tells_and_clears_while_the_database_is_away_and_is_written_down_after(
    bench: Bench, away: Away
) -> None:
    bench.play(2, age_s=1)
    away.begin()
    bench.play(20, age_s=40)
    bench.play(1, age_s=70)
    assert [message.kind for message in bench.posted] == ["fired"]
    fired_at_ms = bench.posted[0].alert.fired_at_ms
    bench.alerter.note_delivered(Delivered(bench.posted[0], True, "fired: delivered"))
    shown = bench.alerter.amend(DatabaseFacts(unknown="the database has not answered"))
    (item,) = shown.alerts
    assert (item["id"], item["rule"], item["peak"], item["fired_at_ms"]) == (
        None,
        "normal-age",
        70.0,
        fired_at_ms,
    )
    assert alerts_part(shown, "normal", [], {})["firing"] == 1
    bench.play(30, age_s=1)
    assert [message.kind for message in bench.posted] == ["fired", "cleared"]
    assert alerts_part(bench.alerter.amend(DatabaseFacts(unknown="away")), "normal", [], {})["firing"] == 0
    away.end()
    assert Alert.objects.count() == 0
    bench.play(1, age_s=1)
    alert = Alert.objects.get()
    assert (alert.fired_at_ms, alert.value, alert.peak) == (fired_at_ms, 40.0, 70.0)
    assert alert.cleared_at_ms == fired_at_ms + 16_000
    assert [(row.ok, row.detail) for row in alert.deliveries.all()] == [(True, "fired: delivered")]
    assert bench.alerter.ledger.head() is None
    bench.play(10, age_s=40)  # and the next one is an alert of its own
    assert Alert.objects.count() == 2


def test_an_alert_that_was_open_before_stays_shown_and_clears_without_the_database(
    bench: Bench, away: Away
) -> None:
    bench.play(10, age_s=40)
    known = DatabaseFacts(alerts=[alert_item(Alert.objects.get())])
    assert bench.alerter.amend(known).alerts[0]["id"] == Alert.objects.get().pk
    away.begin()
    gone = DatabaseFacts(unknown="the database has not answered")
    assert [item["rule"] for item in bench.alerter.amend(gone).alerts] == ["normal-age"]
    bench.play(2, age_s=1)
    assert bench.alerter.amend(gone).alerts == []
    away.end()
    bench.play(1, age_s=1)
    assert Alert.objects.get().cleared_at_ms == bench.at_ms - 2000


def test_an_alert_keeps_its_place_between_its_record_and_the_next_reading(bench: Bench) -> None:
    bench.play(10, age_s=40)
    before = DatabaseFacts()  # read before it fired
    assert [item["rule"] for item in bench.alerter.amend(before).alerts] == ["normal-age"]
    bench.play(1, age_s=1)
    after = DatabaseFacts(alerts=[alert_item(Alert.objects.get())])  # read before it cleared
    assert bench.alerter.amend(after).alerts == []


def test_a_monitor_that_never_read_a_rule_says_that_it_does_not_know(bench: Bench, away: Away) -> None:
    away.begin()
    bench.play(20, age_s=40)
    assert bench.posted == []
    assert alerts_part(bench.alerter.amend(DatabaseFacts(unknown="away")), "normal", [], {})["firing"] is None


def test_what_waits_is_bounded_and_keeps_what_fired_and_cleared(bench: Bench, away: Away) -> None:
    bench.play(1, age_s=1)
    away.begin()
    for _ in range(3):
        bench.play(60, age_s=40)
        for n in range(1000):
            bench.alerter.note_delivered(Delivered(bench.posted[-1], False, f"fired: {n}"))
        bench.play(1, age_s=1)
    assert len(bench.alerter.ledger.waiting()) <= MOST
    assert bench.alerter.ledger.dropped > 900
    away.end()
    bench.play(1, age_s=1)
    assert Alert.objects.filter(cleared_at_ms__isnull=False).count() == 3


def test_who_leads_again_goes_on_with_what_another_wrote(bench: Bench) -> None:
    bench.play(10, age_s=40)
    Alert.objects.update(cleared_at_ms=bench.at_ms)  # by the other one
    bench.alerter._read_at -= 60
    bench.play(1, age_s=20)
    bench.play(8, age_s=40)
    assert Alert.objects.filter(cleared_at_ms=None).count() == 1


@pytest.fixture
def gate_rule() -> AlertRule:
    return AlertRule.objects.create(
        name="gate-failed",
        measure="gate_failed",
        threshold=1,
        clear_threshold=0,
        for_s=10,
        targets=[TARGET],
    )


@pytest.mark.parametrize("how", ["mode", "redis"])
def test_who_is_on_call_is_told_that_the_gate_failed_and_that_it_serves_again(
    bench: Bench, gate_rule: AlertRule, how: str
) -> None:
    """By its mode while Redis can be read (full, read-only), without any frame while it cannot."""
    bench.play(3, age_s=1)
    setattr(bench, how, "failed")
    bench.play(8, age_s=1)
    assert bench.posted == []
    bench.play(4, age_s=1)
    assert [message.kind for message in bench.posted] == ["fired"]
    assert "nothing new is accepted" in bench.posted[0].body
    assert Alert.objects.get().queue == ""
    setattr(bench, how, "normal" if how == "mode" else "ok")
    bench.play(2, age_s=1)
    assert [message.kind for message in bench.posted] == ["fired", "cleared"]
    assert Alert.objects.get().cleared_at_ms is not None


def test_an_outage_judges_nothing_else(bench: Bench) -> None:
    bench.play(12, age_s=40)
    bench.redis = "failed"
    bench.play(60, age_s=1)
    assert [message.kind for message in bench.posted] == ["fired"]
    assert Alert.objects.get().cleared_at_ms is None

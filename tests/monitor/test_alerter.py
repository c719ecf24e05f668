"""Do alerts open, clear and outlive a change of leader, and is everybody told once?"""

from __future__ import annotations

from typing import Any

import pytest

from workers.alerts.delivery import Delivered, Message
from workers.loops.alerter import Alerter, record_delivery
from workers.models import Alert, AlertDelivery, AlertRule

pytestmark = pytest.mark.database

TARGET = "json://user:secret@hooks.example/x"


class Bench:
    """Frames made by hand, and a courier that keeps what it is given."""

    def __init__(self) -> None:
        self.at_ms, self.age_ms, self.posted = 1_000_000, 0, list[Message]()
        self.alerter = self.restart()

    def restart(self) -> Alerter:
        self.alerter = Alerter(self.latest, installation="test", courier=self)  # type: ignore[arg-type]
        return self.alerter

    def post(self, message: Message) -> bool:
        self.posted.append(message)
        return True

    def latest(self) -> tuple[dict[str, Any], dict[str, Any]]:
        row = {
            "name": "normal",
            "oldest_age_ms": self.age_ms,
            "depth": 1,
            "consumers": 1,
            "rates": {"shed": 0.0, "refused": 0.0},
        }
        quarantine = {"count": 0, "oldest_age_ms": 0, "by_queue": {}}
        return {"at_ms": self.at_ms, "queues": [row], "quarantine": quarantine}, {}

    def play(self, seconds: int, *, age_s: float) -> None:
        self.age_ms = round(age_s * 1000)
        for _ in range(seconds):
            self.at_ms += 1000
            self.alerter.tick()


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

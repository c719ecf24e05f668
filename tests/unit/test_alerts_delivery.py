"""Is each delivery made apart from the sampling, tried again, and its outcome written down?"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from tests.support.waiting import wait_until
from workers.alerts.delivery import (
    AGAIN_S,
    CLEARED_ROUNDS,
    Courier,
    Delivered,
    Message,
    redact,
    with_timeouts,
)
from workers.alerts.rules import AlertKey

TARGET = "json://user:secret@hooks.example/path?token=x"
MESSAGE = Message(AlertKey(1, "normal", 0), TARGET, "title", "body", "fired")


class Outbox:
    def __init__(self) -> None:
        self.seen: list[Delivered] = []
        self.arrived = threading.Event()

    def __call__(self, delivered: Delivered) -> None:
        self.seen.append(delivered)
        self.arrived.set()


def test_a_target_is_shown_without_what_opens_it() -> None:
    assert redact(MESSAGE.target) == "json://hooks.example/…"
    assert "secret" not in redact("slack://TOKEN/secret/x")
    assert redact("nonsense") == "(unreadable)"


def test_a_delivery_is_recorded() -> None:
    outbox = Outbox()
    courier = Courier(outbox, send=lambda message: (True, "delivered"))
    assert courier.post(MESSAGE)
    assert outbox.arrived.wait(5)
    assert (outbox.seen[0].ok, outbox.seen[0].detail) == (True, "fired: delivered")
    courier.close()


def test_a_target_that_fails_is_recorded_as_not_sent() -> None:
    outbox, stop = Outbox(), threading.Event()
    stop.set()  # no pauses between attempts

    def send(message: Message) -> tuple[bool, str]:
        raise OSError("unreachable at secret address")

    courier = Courier(outbox, send=send, stop=stop)
    courier.post(MESSAGE)
    assert outbox.arrived.wait(5)
    assert (outbox.seen[0].ok, outbox.seen[0].detail) == (False, "fired: OSError; it is tried again")
    courier.close()


def test_a_target_that_is_away_for_minutes_is_told_when_it_is_back() -> None:
    outbox, stop, tries = Outbox(), threading.Event(), list[int]()
    stop.set()  # no pauses between attempts

    def send(message: Message) -> tuple[bool, str]:
        tries.append(message.round)
        return message.round == 3, "delivered" if message.round == 3 else "away"

    courier = Courier(outbox, send=send, stop=stop)
    courier.post(MESSAGE)
    now_s = time.monotonic()
    for number, pause_s in enumerate(AGAIN_S[:3]):
        wait_until(lambda number=number: len(courier._again) and tries[-1] == number)
        courier.try_again(lambda message: True, now_s=now_s + pause_s - 1)
        assert len(courier._again) == 1  # its time has not come
        courier.try_again(lambda message: True, now_s=now_s + pause_s + 60)
    wait_until(lambda: len(outbox.seen) == 2)
    assert [delivered.ok for delivered in outbox.seen] == [False, True]  # and not a row for each try
    assert outbox.seen[1].detail == "fired: delivered"
    assert tries == [0, 1, 2, 3] and not courier._again
    courier.close()


def test_a_target_is_forgotten_once_it_is_not_to_be_told_any_more() -> None:
    outbox, stop, tries = Outbox(), threading.Event(), list[int]()
    stop.set()

    def send(message: Message) -> tuple[bool, str]:
        tries.append(message.round)
        return False, "away"

    courier = Courier(outbox, send=send, stop=stop)
    courier.post(MESSAGE)
    wait_until(lambda: len(courier._again))
    courier.try_again(lambda message: False, now_s=time.monotonic() + 3_600)
    assert not courier._again and tries == [0]
    for_good = replace(MESSAGE, kind="cleared", round=CLEARED_ROUNDS)
    courier.post(for_good)
    wait_until(lambda: len(tries) == 2)
    assert not courier._again
    courier.close()


def test_a_slow_target_does_not_hold_up_who_posts() -> None:
    outbox, release = Outbox(), threading.Event()

    def send(message: Message) -> tuple[bool, str]:
        return release.wait(5), "delivered"

    courier = Courier(outbox, send=send)
    for _ in range(20):
        assert courier.post(MESSAGE)
    assert not outbox.seen
    release.set()
    assert outbox.arrived.wait(5)
    courier.close()


def test_targets_get_timeouts_unless_they_bring_their_own() -> None:
    assert with_timeouts("json://host/x") == "json://host/x?cto=4&rto=6"
    assert with_timeouts("json://host/x?a=1") == "json://host/x?a=1&cto=4&rto=6"
    assert with_timeouts("json://host/x?cto=1") == "json://host/x?cto=1"

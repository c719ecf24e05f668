"""Is each delivery made apart from the sampling, tried again, and its outcome written down?"""

from __future__ import annotations

import threading

from workers.alerts.delivery import Courier, Delivered, Message, redact, with_timeouts
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
    assert (outbox.seen[0].ok, outbox.seen[0].detail) == (False, "fired: OSError")
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

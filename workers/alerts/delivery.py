"""Who is told, and was it delivered? On threads of its own, so that a slow target holds nothing up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from .rules import AlertKey

log = logging.getLogger("sluicegate.alerts")
logging.getLogger("apprise").setLevel(logging.ERROR)  # each outcome is written down here

AT_ONCE = 4
WAITING_MAX = 500  # messages; beyond it the newest are dropped, and said so
ATTEMPTS = 3
PAUSE_S = (1.0, 5.0)
#: A target that took none of these is asked again as long as it should know, at last every five minutes.
AGAIN_S = (20.0, 60.0, 120.0, 300.0)
#: What fires is told for as long as it does; that it has cleared, for an hour or so.
CLEARED_ROUNDS = 15
CONNECT_S, READ_S = 4, 6  # a target's own timeouts


@dataclass(frozen=True, slots=True)
class Message:
    alert: AlertKey
    target: str  # an apprise URL: a secret
    title: str
    body: str
    kind: str  # "fired" or "cleared"
    round: int = 0  # how often all attempts have failed


@dataclass(frozen=True, slots=True)
class Delivered:
    message: Message
    ok: bool
    detail: str


Send = Callable[[Message], tuple[bool, str]]
Record = Callable[[Delivered], None]


class Courier:
    """Sends messages in the background and hands each outcome to `record`."""

    def __init__(
        self, record: Record, *, send: Send | None = None, stop: threading.Event | None = None
    ) -> None:
        self._record = record
        self._send = send or send_by_apprise
        self._stop = stop or threading.Event()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="alert-delivery")
        self._waiting = 0
        self._again: list[tuple[float, Message]] = []
        self._lock = threading.Lock()

    def try_again(self, is_wanted: Callable[[Message], bool], *, now_s: float | None = None) -> None:
        """Posts those again whose pause is over; who is not to be told any more is forgotten.

        ``now_s``: by the monotonic clock.
        """
        now_s = time.monotonic() if now_s is None else now_s
        with self._lock:
            due = [message for at_s, message in self._again if at_s <= now_s]
            self._again = [(at_s, message) for at_s, message in self._again if at_s > now_s]
        for message in due:
            if is_wanted(message):
                self.post(message)

    def post(self, message: Message) -> bool:
        with self._lock:
            if self._waiting >= WAITING_MAX:
                log.error("too many messages wait: one to %s was not sent", redact(message.target))
                return False
            self._waiting += 1
        self._pool.submit(self._deliver, message)
        return True

    def _deliver(self, message: Message) -> None:
        ok, detail = False, ""
        try:
            for attempt in range(ATTEMPTS):
                try:
                    ok, detail = self._send(message)
                except Exception as exc:  # noqa: BLE001 - a plugin's trouble is an outcome to record
                    ok, detail = False, f"{type(exc).__name__}"
                if ok or self._stop.is_set():
                    break
                if attempt < len(PAUSE_S):
                    self._stop.wait(PAUSE_S[attempt])
            goes_on = not ok and (message.kind == "fired" or message.round < CLEARED_ROUNDS)
            if goes_on:
                pause_s = AGAIN_S[min(message.round, len(AGAIN_S) - 1)]
                with self._lock:
                    later = replace(message, round=message.round + 1)
                    self._again.append((time.monotonic() + pause_s, later))
            if ok or message.round == 0:  # not each failure after the first, for as long as it lasts
                told = f"{message.kind}: {detail}" if detail else message.kind
                self._record(Delivered(message, ok, f"{told}; it is tried again" if goes_on else told))
        except Exception:
            log.exception("the outcome of a delivery to %s was not recorded", redact(message.target))
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


def send_by_apprise(message: Message) -> tuple[bool, str]:
    import apprise

    target = apprise.Apprise.instantiate(with_timeouts(message.target), suppress_exceptions=True)
    if target is None:
        return False, "the address is not one that a message can be sent to"
    sender = apprise.Apprise()
    sender.add(target)
    kind = apprise.NotifyType.FAILURE if message.kind == "fired" else apprise.NotifyType.SUCCESS
    ok = bool(sender.notify(title=message.title, body=message.body, notify_type=kind))
    return ok, "delivered" if ok else "the target did not take it"


def with_timeouts(target: str) -> str:
    """The address with connect and read timeouts, unless it brings its own."""
    if "cto=" in target or "rto=" in target or "://" not in target:
        return target
    return f"{target}{'&' if '?' in target else '?'}cto={CONNECT_S}&rto={READ_S}"


def redact(target: str) -> str:
    """Scheme, host and port alone: whatever else is in it may be what opens it."""
    try:
        parts = urlsplit(target)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(unreadable)"
    return f"{parts.scheme}://{host}{port}/…"[:300] if parts.scheme else "(unreadable)"

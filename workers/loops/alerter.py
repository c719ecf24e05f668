"""Which alerts fire and clear, and is everybody told who should be?

Three steps, each a loop of its own, so that a database that is away or slow holds no alert up: rules are
read, the newest frame is judged by those known last, and what came of it is written down when it can be.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import DataError, Error, IntegrityError, transaction

from ..alerts.delivery import Courier, Delivered, Message, redact
from ..alerts.ledger import CLEAR, FIRE, PEAK, TOLD, Act, Ledger, show_open
from ..alerts.measures import GATE_FAILED, read_values
from ..alerts.rules import AlertKey, Rule, Watch, evaluate
from ..alerts.sentences import say_alert, say_cleared
from ..models import Alert, AlertDelivery, AlertRule
from .database_health import first_line
from .frame.inputs import DatabaseFacts

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S, WRITE_S = 1.0, 0.5
#: Without a reading for so long this one did not lead: another has gone on with the alerts meanwhile.
LED_BY_ANOTHER_S = 5.0
GONE = "the rule is off or gone"
UNREAD = "alert rules are those read last"
UNWRITTEN = "what alerts did waits to be written down"
Latest = Callable[[], tuple[dict[str, Any], dict[str, Any]] | None]
Outage = Callable[[], int | None]  # Redis's time in ms while Redis has failed, else None


@dataclass(frozen=True, slots=True)
class Known:
    """A rule as it was read last, with whom it tells."""

    rule: Rule
    targets: tuple[str, ...]
    runbook: str


@dataclass(frozen=True, slots=True)
class Open:
    """An open alert of the database."""

    key: AlertKey
    value: float | None
    peak: float | None
    snoozed_until_at_ms: int | None
    told: frozenset[str] = frozenset()  # targets, redacted, that were reached when it fired

    def is_snoozed(self, now_ms: int) -> bool:
        return self.snoozed_until_at_ms is not None and self.snoozed_until_at_ms > now_ms


@dataclass(frozen=True, slots=True)
class Book:
    """What the database said last of rules and open alerts."""

    rules: Mapping[int, Known]
    open: Mapping[tuple[int, str], Open]


class Alerter:
    """Open alerts live in the database: a new leader goes on with them."""

    def __init__(
        self,
        latest: Latest,
        *,
        installation: str,
        courier: Courier | None = None,
        outage: Outage = lambda: None,
    ) -> None:
        self._latest = latest
        self._outage = outage
        self._installation = installation
        self.ledger = Ledger()
        self.courier = courier or Courier(self.note_delivered)
        self._watches: dict[tuple[int, str], Watch] = {}
        self._fired: dict[tuple[int, str], AlertKey] = {}
        self._seen_at_ms = 0
        self._book: Book | None = None
        self._taken: Book | None = None  # the reading with which this one takes over, at its next judgement
        self._read_at = 0.0
        self._behind = True
        self._said: set[str] = set()
        self._shown: tuple[Mapping[str, Any], ...] = ()
        self._writing = threading.Lock()

    def read(self) -> bool:
        """The rules and open alerts as they are now; those known before stay in force where this fails."""
        self._behind = self._behind or time.monotonic() - self._read_at > LED_BY_ANOTHER_S
        try:
            book = read_book(with_told=self._behind)
        except Error as exc:
            self._say(UNREAD, exc)
            return False
        finally:
            self._read_at = time.monotonic()
        self._said.discard(UNREAD)
        if self._behind:
            self._taken, self._behind = book, False
        self._book = book
        return False

    def tick(self) -> bool:
        """Judges the newest frame, or that there is none. Asks nobody."""
        self.courier.try_again(self._is_to_be_told)
        found, book = self._latest(), self._book
        if book is None:
            return False
        if found is None:
            self._judge_outage(book)
            return False
        if int(found[0]["at_ms"]) == self._seen_at_ms:
            return False
        frame = found[0]
        now_ms = self._seen_at_ms = int(frame["at_ms"])
        taken, self._taken = self._taken, None
        if taken is not None:
            self._take_over(taken)
        seen = set()
        for known in book.rules.values():
            for queue, value in read_values(known.rule, frame):
                seen.add((known.rule.id, queue))
                self._judge(known, queue, value, book, now_ms=now_ms)
        for place in [place for place in self._watches if place not in seen]:
            if self._watches[place].firing:
                self._close(place, now_ms=now_ms)
            del self._watches[place]
        return False

    def _judge_outage(self, book: Book) -> None:
        """Without a frame nothing is known of a queue; that the gate has failed is."""
        now_ms = self._outage()
        if now_ms is None:
            return
        self._seen_at_ms = now_ms
        for known in book.rules.values():
            if known.rule.measure == GATE_FAILED:
                self._judge(known, known.rule.queue, 1.0, book, now_ms=now_ms)

    def _judge(self, known: Known, queue: str, value: float | None, book: Book, *, now_ms: int) -> None:
        place = (known.rule.id, queue)
        watch, act = evaluate(known.rule, self._watches.get(place, Watch()), value, now_ms=now_ms)
        if act:
            self._act(act, known, queue, value, book, now_ms=now_ms)
        self._watches[place] = watch

    def write(self) -> bool:
        """Writes down what came of it, in order; what the database does not take now waits."""
        with self._writing:
            while (act := self.ledger.head()) is not None:
                try:
                    with transaction.atomic():
                        write_act(act)
                except (IntegrityError, DataError) as exc:
                    log.warning("%s of an alert was not written down: %s", act.kind, exc)
                except Error as exc:
                    self._say(UNWRITTEN, exc)
                    return False
                self.ledger.done(act, now_ms=self._seen_at_ms)
                self._said.discard(UNWRITTEN)
        return False

    def amend(self, facts: DatabaseFacts) -> DatabaseFacts:
        """A frame's facts with what is not written down yet; without a database the alerts known last."""
        if not facts.unknown:
            self._shown = tuple(facts.alerts)
        unseen = self.ledger.unseen(now_ms=self._seen_at_ms)
        if self._book is None or not (unseen or facts.unknown):
            return facts
        alerts = show_open(self._shown, unseen, self._name_of)
        fired = [act for act in self.ledger.waiting() if act.kind == FIRE and act.rule is not None]
        events = [
            {"at_ms": act.at_ms, "kind": "alert", "text": f"{act.rule.name}: {_sentence(act.rule, act)}"}
            for act in reversed(fired)
            if act.rule is not None
        ]
        last = max([act.at_ms for act in fired] + [facts.last_alert_at_ms or 0]) or None
        return replace(
            facts,
            alerts=alerts,
            alerts_known=True,
            last_alert_at_ms=last,
            events=[*events, *facts.events],
        )

    def note_delivered(self, delivered: Delivered) -> None:
        """Called on the courier's threads."""
        self.ledger.add(Act(TOLD, delivered.message.alert, self._seen_at_ms, delivered=delivered))

    def _take_over(self, book: Book) -> None:
        """Goes on with what another leader left open, and tells the targets that it did not reach."""
        self._watches.clear()
        self._fired.clear()
        for place, alert in book.open.items():
            self._watches[place] = Watch(firing=True, peak=alert.peak)
            self._fired[place] = alert.key
            known = book.rules.get(alert.key.rule_id)
            if known is not None:
                self._tell(known, alert.key, "fired", alert.value, skip=alert.told)

    def _act(
        self, act: str, known: Known, queue: str, value: float | None, book: Book, *, now_ms: int
    ) -> None:
        rule, place = known.rule, (known.rule.id, queue)
        if act == "fire":
            key = self._fired[place] = AlertKey(rule.id, queue, now_ms)
            self.ledger.add(Act(FIRE, key, now_ms, rule, value, value, known.runbook))
            log.warning("alert %s", say_alert(rule.measure, queue, value, rule.threshold))
            self._tell(known, key, "fired", value)
            return
        key = self._fired.get(place, AlertKey(rule.id, queue, now_ms))
        if act == "peak":
            self.ledger.add(Act(PEAK, key, now_ms, rule, value, value))
        elif act == "clear":
            self._fired.pop(place, None)
            self.ledger.add(Act(CLEAR, key, now_ms, rule))
            alert = book.open.get(place)
            if alert is None or not alert.is_snoozed(now_ms):
                self._tell(known, key, "cleared", self._watches[place].peak)

    def _close(self, place: tuple[int, str], *, now_ms: int) -> None:
        rule_id, queue = place
        key = self._fired.pop(place, AlertKey(rule_id, queue, now_ms))
        self.ledger.add(Act(CLEAR, key, now_ms))
        log.info("alert of rule %s on %s closed: %s", rule_id, queue or "the gate", GONE)

    def _tell(
        self,
        known: Known,
        key: AlertKey,
        kind: str,
        value: float | None,
        *,
        skip: frozenset[str] = frozenset(),
    ) -> None:
        rule = known.rule
        say = say_cleared if kind == "cleared" else say_alert
        said = say(rule.measure, key.queue, value, rule.threshold)
        title = f"{self._installation}: {rule.name} {kind}"
        body = f"{said}\n{known.runbook}" if kind == "fired" and known.runbook else said
        for target in known.targets:
            if redact(target) not in skip:
                self.courier.post(Message(key, target, title, body, kind))

    def _is_to_be_told(self, message: Message) -> bool:
        """Whether somebody who could not be reached should still be."""
        known = self._book.rules.get(message.alert.rule_id) if self._book else None
        if self._book is None or known is None or message.target not in known.targets:
            return False
        if message.kind == "cleared":
            return True
        place = (message.alert.rule_id, message.alert.queue)
        alert = self._book.open.get(place)
        snoozed = alert is not None and alert.is_snoozed(self._seen_at_ms)
        return self._fired.get(place) == message.alert and not snoozed

    def _say(self, what: str, exc: Exception) -> None:
        """Once, until it goes well again."""
        if what not in self._said:
            log.warning("%s: %s", what, first_line(exc))
        self._said.add(what)

    def _name_of(self, key: AlertKey) -> str:
        known = self._book.rules.get(key.rule_id) if self._book else None
        return known.rule.name if known else ""


def read_book(*, with_told: bool) -> Book:
    rules = {
        row.pk: Known(as_rule(row), tuple(row.targets), row.runbook)
        for row in AlertRule.objects.filter(enabled=True)
    }
    rows = list(Alert.objects.filter(cleared_at_ms__isnull=True))
    told: dict[int, set[str]] = {}
    if with_told and rows:
        reached = AlertDelivery.objects.filter(alert__in=rows, detail__startswith="fired", ok=True)
        for alert_id, target in reached.values_list("alert_id", "target"):
            told.setdefault(alert_id, set()).add(target)
    found = {
        (row.rule_id, row.queue): Open(
            AlertKey(row.rule_id, row.queue, row.fired_at_ms),
            row.value,
            row.peak,
            row.snoozed_until_at_ms,
            frozenset(told.get(row.pk, ())),
        )
        for row in rows
    }
    return Book(rules, found)


def write_act(act: Act) -> None:
    """One act; again after it was written, it changes nothing more."""
    key = act.key
    still_open = Alert.objects.filter(rule_id=key.rule_id, queue=key.queue, cleared_at_ms__isnull=True)
    if act.kind == FIRE and act.rule is not None:
        Alert.objects.create(
            rule_id=key.rule_id,
            queue=key.queue,
            fired_at_ms=key.fired_at_ms,
            value=act.value,
            threshold=act.rule.threshold,
            peak=act.peak,
        )
    elif act.kind == PEAK:
        still_open.update(peak=act.peak)
    elif act.kind == CLEAR:
        still_open.update(cleared_at_ms=act.at_ms)
    elif act.kind == TOLD and act.delivered is not None:
        record_delivery(act.delivered)


def as_rule(row: AlertRule) -> Rule:
    return Rule(
        row.pk, row.name, row.queue, row.measure, row.threshold, row.clear_threshold, row.for_s, row.severity
    )


def record_delivery(delivered: Delivered) -> None:
    key = delivered.message.alert
    alert = Alert.objects.filter(
        rule_id=key.rule_id, queue=key.queue, fired_at_ms__lte=key.fired_at_ms
    ).first()
    if alert is None:
        return  # its rule is gone, and the alert with it
    AlertDelivery.objects.create(
        alert=alert,
        target=redact(delivered.message.target),
        ok=delivered.ok,
        detail=delivered.detail[:2000],
    )


def _sentence(rule: Rule, act: Act) -> str:
    return say_alert(rule.measure, act.key.queue, act.peak, rule.threshold)

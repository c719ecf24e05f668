"""What does this process know as a producer: its credits, its part of local limits, what it has to tell?"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..store import Offer, Store, Verdict
from ..store.offers import Grant
from .credits import Credits
from .local import LocalLimits

#: Tells the producers of one process apart: that of an application and that of the HTTP door.
_numbers = itertools.count(1)

Admit = Callable[[Sequence[Offer]], list[Verdict]]


class Producer:
    """One a process and gate. Safe to share between threads; a forked child makes its own."""

    def __init__(self) -> None:
        # The same after a restart in the same place: the newer epoch takes the older one's grant over.
        self.name = f"{socket.gethostname()}:{os.getpid()}:{next(_numbers)}"
        self.epoch = int(time.time() * 1000)
        self.credits = Credits(self.name, self.epoch)
        self._limits: dict[str, LocalLimits] = {}
        self._lock = threading.Lock()
        self._blocked_ms: Counter[str] = Counter()
        self._blocked_now: Counter[str] = Counter()
        self._was_told = ""

    @property
    def is_at_ease(self) -> bool:
        """Whether no attempt need be looked at before it is made."""
        return not (self.credits.tight or self._limits)

    def why_not(
        self, queue: str, tenant: str, api_key: str | None = None, *, by_credits: bool = True
    ) -> tuple[str, float] | None:
        """Reason and seconds for which no attempt may be made; None where it may. Charges local limits."""
        known = self.credits.why_not(queue) if by_credits else None
        if known is not None or queue not in self._limits:
            return known
        with self._lock:
            limits = self._limits.get(queue)
            wait_s = limits.wait_s(tenant, api_key, time.time()) if limits else 0.0
        return ("rate", wait_s) if wait_s > 0 else None

    def admit(self, offers: Sequence[Offer], admit: Admit) -> list[Verdict]:
        """Lets the questions for credits ride on new offers, and learns from the answers."""
        asked: dict[str, int] = {}
        out = offers
        if len(offers) == 1:
            # The way of every delay(): nothing is made that is not needed.
            offer = offers[0]
            ask = None if offer.retries else self.credits.begin(offer.queue)
            if ask is not None:
                out = [dataclasses.replace(offer, ask=ask)]
                asked[offer.queue] = 0
        else:
            out = list(offers)
            number = Counter(offer.queue for offer in offers if not offer.retries)
            for place, offer in enumerate(offers):
                if offer.retries or offer.queue not in number:
                    continue
                ask = self.credits.begin(offer.queue, number.pop(offer.queue))
                if ask is not None:
                    out[place] = dataclasses.replace(offer, ask=ask)
                    asked[offer.queue] = place
        if not asked:
            return admit(out)
        verdicts: list[Verdict] = []
        try:
            verdicts = admit(out)
        finally:
            for queue, place in asked.items():
                self._learn(queue, verdicts[place].grant if place < len(verdicts) else None)
        return verdicts

    def renew(self, store: Store) -> None:
        """Keeps the parts of local limits true while this process refuses all that would ask by itself.

        Raises:
            StoreUnavailable.
        """
        asked = {queue: self.credits.ask_without_attempt(queue) for queue in list(self._limits)}
        used = {queue: ask.used for queue, ask in asked.items() if ask is not None}
        if not used:
            return
        grants: dict[str, Grant | None] = {}
        try:
            grants = store.ask_credits(self.name, self.epoch, used)
        finally:
            for queue in used:
                self._learn(queue, grants.get(queue))

    def _learn(self, queue: str, grant: Grant | None) -> None:
        self.credits.learn(queue, grant)
        if grant is None:
            return
        with self._lock:
            if not grant.limits:
                self._limits.pop(queue, None)
            elif queue in self._limits:
                self._limits[queue].change(grant.limits, producers=grant.producers)
            else:
                self._limits[queue] = LocalLimits(grant.limits, producers=grant.producers)

    @contextmanager
    def blocked(self, queue: str) -> Iterator[None]:
        """A wait for room, for the report."""
        began = time.monotonic()
        with self._lock:
            self._blocked_now[queue] += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocked_now[queue] -= 1
                self._blocked_ms[queue] += round((time.monotonic() - began) * 1000)

    @property
    def has_news(self) -> bool:
        return bool(self._was_told or self._limits or self._blocked_ms or any(self._blocked_now.values()))

    def account(self, store: Store, *, door: int = 0) -> None:
        """Tells how many wait for room or at the door, and for how long it was; if anything is new.

        Raises:
            StoreUnavailable: it is kept for the next time.
        """
        with self._lock:
            blocked_ms, self._blocked_ms = self._blocked_ms, Counter()
            now = {queue: number for queue, number in self._blocked_now.items() if number > 0}
        holds = json.dumps({"door": door, "blocked": now}) if door or now else ""
        if not (holds or blocked_ms or self._was_told):
            return
        try:
            store.account(
                self.name, self.epoch, holds=holds, queues={q: (0, ms) for q, ms in blocked_ms.items()}
            )
        except Exception:
            with self._lock:
                self._blocked_ms.update(blocked_ms)
            raise
        self._was_told = holds

    def end(self, store: Store) -> None:
        """Gives back what is left of every grant."""
        with self._lock:
            blocked_ms, self._blocked_ms = self._blocked_ms, Counter()
            self._limits.clear()
        used = self.credits.give_back()
        if used or blocked_ms or self._was_told:
            queues = {queue: (used.get(queue, 0), blocked_ms[queue]) for queue in {*used, *blocked_ms}}
            store.account(self.name, self.epoch, ends=True, queues=queues)
            self._was_told = ""

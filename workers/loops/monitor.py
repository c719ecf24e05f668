"""Which loops make up the monitor, and how do they start and stop together?"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from typing import Any

from django.conf import settings
from django.db import close_old_connections

from ..modes.redis_health import redis_failed
from ..store import Store
from . import (
    alerter,
    deleter,
    facts,
    governor,
    historian,
    inlet,
    losses,
    modeler,
    publisher,
    reaper,
    recorder,
    replayer,
    retention,
    sampler,
)
from .broadcast import GroupBroadcast
from .database_health import DatabaseHealth
from .leadership import RENEW_S, Leadership
from .skeleton import Loop, LoopThread

log = logging.getLogger("sluicegate.monitor")

STOP_WITHIN_S = 2.5
LAST_RECORDS_S = 0.5  # for what alerts did and is not written down


class Monitor:
    def __init__(
        self, store: Store, *, installation: str, layer_of: Any, holder: str = "", wish: str = ""
    ) -> None:
        self.store = store
        self.stop = threading.Event()
        self.leadership = Leadership(store, holder or f"{socket.gethostname()}:{os.getpid()}")
        self.broadcast = GroupBroadcast(layer_of)
        self.database = DatabaseHealth(store.clock.now_ms)
        self.facts = facts.Facts(self.database)
        self.historian = historian.Historian(self.database)
        self.losses = losses.Losses()
        self.sampler = sampler.Sampler(
            store,
            installation=installation,
            broadcast=self.broadcast.send,
            facts=lambda: self.alerter.amend(self.facts.current()),
            listeners=(self.historian.hear,),
            wish=wish,
            compare=self.losses.compare,
        )
        self.alerter = alerter.Alerter(
            self.sampler.latest, installation=installation, outage=self.read_outage
        )

    @classmethod
    def from_settings(cls) -> Monitor:
        from channels.layers import get_channel_layer

        store = Store.from_url(settings.SLUICEGATE_REDIS_URL, gate=settings.SLUICEGATE_GATE)
        name = getattr(settings, "SLUICEGATE_INSTALLATION", "") or settings.SLUICEGATE_GATE
        wish = getattr(settings, "SLUICEGATE_DURABILITY", "")
        return cls(store, installation=name, layer_of=get_channel_layer, wish=wish)

    def read_outage(self) -> int | None:
        """Redis's time in ms while Redis has failed, carried on from its last answer; else None."""
        now_ms = self.store.clock.now_ms()
        return now_ms if redis_failed(self.sampler.read_health(), now_ms=now_ms) else None

    def loops(self) -> list[Loop]:
        store, latest, queues = self.store, self.sampler.latest, self.sampler.queues
        govern = governor.Governor(store, latest, self.sampler.read_health)
        return [
            Loop("leader", RENEW_S, self.leadership.renew, leader_only=False, burst=1),
            Loop("sampler", sampler.INTERVAL_S, self.sampler.tick, burst=1, through_outage=True),
            Loop("facts", facts.INTERVAL_S, self.facts.tick, burst=1),
            Loop("historian", historian.INTERVAL_S, self.historian.tick, burst=1),
            Loop("governor", governor.INTERVAL_S, govern.tick, through_outage=True),
            Loop("losses", losses.INTERVAL_S, self.losses.write, burst=1, through_outage=True),
            Loop("transitions", governor.INTERVAL_S, govern.write, burst=1, through_outage=True),
            Loop("reaper", reaper.REAP_S, reaper.Reaper(store).tick),
            Loop(
                "promoter",
                reaper.PROMOTE_S,
                reaper.Promoter(store, lambda: self.sampler.queues_with("delayed")).tick,
            ),
            Loop("sweeper", reaper.SWEEP_S, reaper.Sweeper(store, queues).tick),
            Loop(
                "inlet", inlet.INTERVAL_S, inlet.Inlet(store, lambda: self.sampler.queues_with("inlet")).tick
            ),
            Loop("recorder", recorder.INTERVAL_S, recorder.Recorder(store, self.database).tick),
            Loop("replayer", replayer.INTERVAL_S, replayer.Replayer(store, latest).tick, burst=1),
            Loop(
                "modeler", modeler.INTERVAL_S, modeler.Modeler(store, self.sampler.copy_history).tick, burst=1
            ),
            Loop("rules", alerter.INTERVAL_S, self.alerter.read, burst=1, through_outage=True),
            Loop("alerter", alerter.INTERVAL_S, self.alerter.tick, burst=1, through_outage=True),
            Loop("alert records", alerter.WRITE_S, self.alerter.write, burst=1, leader_only=False),
            Loop("publisher", publisher.INTERVAL_S, publisher.Publisher(store).tick, burst=1),
            Loop("deleter", deleter.INTERVAL_S, deleter.Deleter(store).tick, burst=1),
            Loop("retention", retention.INTERVAL_S, retention.Retention(store).tick, burst=1),
        ]

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop.set())
        self.leadership.renew()
        threads = [
            LoopThread(
                loop,
                stop=self.stop,
                leads=self.leadership.leads,
                leads_or_waits=self.leadership.leads_or_waits,
                after=close_old_connections,
            )
            for loop in self.loops()
        ]
        for thread in threads:
            thread.start()
        log.info("monitor runs: %s", ", ".join(thread.loop.name for thread in threads))
        while not self.stop.is_set():
            self.stop.wait(1.0)
        deadline = time.monotonic() + STOP_WITHIN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self.leadership.release()
        self.alerter.courier.close()
        last = threading.Thread(target=self.alerter.write, name="monitor-last-records", daemon=True)
        last.start()
        last.join(LAST_RECORDS_S)
        self.broadcast.close()
        late = [thread.loop.name for thread in threads if thread.is_alive()]
        log.info("monitor stopped%s", f"; did not wait for {', '.join(late)}" if late else "")

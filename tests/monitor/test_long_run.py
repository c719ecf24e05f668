"""Does a week leave memory, keys and rows as a day does? What is kept an hour is kept a second here."""

from __future__ import annotations

import gc
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from tests.monitor.conftest import Sampled, make_offer
from workers.actions.actor import Actor
from workers.actions.journal import REFUSED, write_entry
from workers.loops import retention
from workers.loops.historian import Historian
from workers.loops.reaper import Sweeper
from workers.loops.recorder import Recorder
from workers.loops.retention import Retention
from workers.metrics.history import KEPT_MS
from workers.models import JournalEntry, QuarantinedJob, Sample
from workers.store import Store
from workers.store.turns import Settlement

KEPT_S = 1  # settled records: an hour in an installation
HELD = 40  # of a queue's quarantine: ten thousand in an installation
#: Kept for a day, whatever the setting: a short run may grow by these and by nothing else.
A_DAY = ("idempotency", "tombstones")


class LongRun:
    """A gate under work of all kinds, and the monitor's loops, stepped by hand."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.write_settings({"retention_s": KEPT_S})
        policies = store.read_policies()
        for queue, fields in policies.items():
            store.publish_policy(queue, {**fields, "quarantine_max_count": HELD}, version=2)
        self.sampled = Sampled(store)
        self.recorder, self.historian = Recorder(store), Historian()
        self.sweeper = Sweeper(store, lambda: list(policies))
        self.retention = Retention(store)
        self.jobs = 0

    def round(self, number: int) -> None:
        """Ten minutes of an installation: some succeed, fail, are retried, delayed, cancelled, keyed."""
        offers = []
        for n in range(60):
            self.jobs += 1
            more: dict[str, Any] = {"tenant": f"t{n % 7}"}
            if n % 10 == 0:
                more["ordering_key"] = f"order-{self.jobs}"
            if n % 12 == 0:
                more["idempotency_key"] = f"once-{self.jobs}"
            queue = ("critical", "urgent", "normal", "bulk")[n % 4]
            offers.append(make_offer(self.jobs, queue, **more))
        refused = [verdict for verdict in self.store.admit(offers) if not verdict.accepted]
        assert not refused, refused[0]
        self.store.cancel(offers[-1].id, by="o")
        while claimed := self.store.claim("w1@host", ["critical", "urgent", "normal", "bulk"], 50):
            now_ms = self.store.clock.now_ms()
            self.store.settle(
                [
                    Settlement(
                        job.id,
                        job.epoch,
                        "failed" if index % 5 == 0 else "succeeded",
                        started_at_ms=now_ms,
                        run_ms=5,
                        error={"type": "E", "message": f"job {job.id}", "traceback": "raise"},
                    )
                    for index, job in enumerate(claimed)
                ]
            )
        self.sampled.sampler.tick()
        while self.recorder.tick():
            pass
        frame = self.sampled.sampler.frame
        snapshot = self.sampled.sampler.history.latest
        assert frame is not None and snapshot is not None
        self.historian.hear({**frame, "at_ms": frame["at_ms"] + 600_000 * number}, snapshot)
        self.historian.tick()
        self.sampled.sent.clear()

    def rest(self) -> None:
        """What is past its time goes."""
        time.sleep(KEPT_S + 0.2)
        while self.sweeper.tick():
            pass
        self.retention.tick()

    def measure(self) -> dict[str, float]:
        client, root = self.store.client, self.store.root
        ages = tuple(f"{root}{name}" for name in A_DAY)
        names = [key.decode() for key in client.keys("*")]
        # Those of a day each have their end, or are swept by it.
        kept_a_day = [name for name in names if name.startswith(ages)]
        assert all(client.pttl(name) > 0 or name == f"{root}tombstones" for name in kept_a_day)
        # Histograms of the last 80 s are many or few by the pace of the run.
        slots = [name for name in names if name.startswith((f"{root}waits:", f"{root}services:"))]
        assert all(0 < client.pttl(name) <= 80_000 or client.pttl(name) == -2 for name in slots)
        keys = [name for name in names if not name.startswith(ages) and name not in slots]
        gc.collect()
        return {
            "keys": len(keys),
            "keys without an end": sum(client.pttl(key) == -1 for key in keys),
            "Redis, bytes": sum(client.memory_usage(key) or 0 for key in keys),
            "samples": Sample.objects.count(),
            "held": QuarantinedJob.objects.count(),
            "journal": JournalEntry.objects.count(),
            "this process, KiB": int(Path("/proc/self/statm").read_text().split()[1]) * 4 - in_memory_kib(),
        }


def in_memory_kib() -> int:
    """The tests' SQLite is in this process; its rows are bounded above."""
    if connection.vendor != "sqlite":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA page_count")
        return int(cursor.fetchone()[0]) * 4


def run(
    store: Store, rounds: int, *, warm: int, warm_s: float = 0
) -> tuple[dict[str, float], dict[str, float]]:
    room = LongRun(store)
    began, number = time.monotonic(), 0
    while number < warm or time.monotonic() - began < warm_s:
        room.round(number)
        number += 1
    warm = number
    room.rest()
    before = room.measure()
    for number in range(warm, warm + rounds):
        room.round(number)
        if number % 50 == 49:
            room.rest()
    room.rest()
    return before, room.measure()


def assert_flat(before: dict[str, float], after: dict[str, float]) -> None:
    told = json.dumps({name: (before[name], after[name]) for name in before})
    assert after["keys without an end"] <= before["keys without an end"] + 2, told
    assert after["keys"] <= before["keys"] * 1.2 + 20, told
    assert after["Redis, bytes"] <= before["Redis, bytes"] * 1.3 + 50_000, told
    assert after["held"] <= 4 * HELD, told
    # One entry in ten minutes for what each full quarantine drops.
    assert after["journal"] <= before["journal"] + 12, told
    # A day of samples at 10 s and a week at 60 s, and no more.
    assert after["samples"] <= 15 * 60 + 6 * 360 + 7 * 1440, told
    assert after["this process, KiB"] - before["this process, KiB"] < 20_000, told


def test_a_longer_run_keeps_no_more_than_a_shorter_one(gate: Store) -> None:
    assert_flat(*run(gate, 25, warm=20))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_week_leaves_memory_keys_and_rows_flat(gate: Store) -> None:
    # The sampler's history is bounded by the clock alone: before it is full, memory grows as it should.
    before, after = run(gate, 7 * 144, warm=100, warm_s=KEPT_MS / 1000 + 10)
    print(before, after)
    assert_flat(before, after)


@pytest.mark.database
def test_what_only_strangers_write_is_bounded_in_rows_too(gate: Store, monkeypatch: Any) -> None:
    """Refusals and cancels in the journal, and sessions that have ended; what operators did stays."""
    monkeypatch.setattr(retention, "STRANGERS_KEPT", 20)
    operator, stranger = Actor("ada", "operator", "page"), Actor("nobody", "", "api")
    write_entry(operator, "set_mode", target="*")
    for _ in range(50):
        write_entry(stranger, "POST /api/v1/mode", outcome=REFUSED)
        write_entry(Actor("sg_default", "viewer", "api", tenant="default"), "cancel", target="j")
    write_entry(operator, "set_mode", target="*")
    ended = timezone.now() - timedelta(seconds=1)
    Session.objects.create(session_key="a" * 32, session_data="", expire_date=ended)
    Session.objects.create(
        session_key="b" * 32, session_data="", expire_date=timezone.now() + timedelta(hours=1)
    )
    Retention(gate).tick()
    assert JournalEntry.objects.filter(outcome=REFUSED).count() == 20
    assert JournalEntry.objects.filter(verb="cancel").count() == 20
    assert JournalEntry.objects.filter(actor="ada").count() == 2
    assert [s.session_key for s in Session.objects.all()] == ["b" * 32]

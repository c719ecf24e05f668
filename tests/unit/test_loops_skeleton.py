"""Does a loop live on after an error, step aside when it does not lead, and stop when told?"""

from __future__ import annotations

import logging
import threading

import pytest

from workers.exceptions import StoreUnavailable
from workers.loops.leadership import Leadership
from workers.loops.skeleton import Loop, LoopThread


def thread_of(tick: object, *, leads: bool = True, **more: object) -> LoopThread:
    loop = Loop("test", 0.001, tick, **more)  # type: ignore[arg-type]
    return LoopThread(loop, stop=threading.Event(), leads=lambda: leads)


def test_a_tick_that_did_work_is_asked_again_and_not_for_ever() -> None:
    seen = []
    thread_of(lambda: seen.append(1) or len(seen) < 3).step()
    assert len(seen) == 3
    seen.clear()
    thread_of(lambda: seen.append(1) or True, burst=5).step()
    assert len(seen) == 5


def test_an_error_is_said_once_and_the_loop_lives(caplog: pytest.LogCaptureFixture) -> None:
    def tick() -> bool:
        raise ValueError("broken")

    thread = thread_of(tick)
    with caplog.at_level(logging.INFO, "sluicegate.monitor"):
        thread.step()
        thread.step()
    assert len([r for r in caplog.records if "failed and goes on" in r.message]) == 1


def test_a_redis_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    trouble = [StoreUnavailable("down")]

    def tick() -> bool:
        if trouble:
            raise trouble.pop()
        return False

    thread = thread_of(tick)
    with caplog.at_level(logging.INFO, "sluicegate.monitor"):
        thread.step()
        thread.step()
    assert [r.message for r in caplog.records] == ["test waits: Redis: down", "test goes on"]


def test_only_the_leader_works_and_all_stop() -> None:
    ran, stop = threading.Event(), threading.Event()
    idle = LoopThread(Loop("idle", 0.001, lambda: ran.set() or False), stop=stop, leads=lambda: False)
    led = threading.Event()
    busy = LoopThread(Loop("busy", 0.001, lambda: led.set() or False), stop=stop, leads=lambda: True)
    idle.start(), busy.start()
    assert led.wait(5)
    stop.set()
    idle.join(5), busy.join(5)
    assert not ran.is_set()
    assert not idle.is_alive()
    assert not busy.is_alive()


class LeaseStore:
    def __init__(self) -> None:
        self.holder: str | None = None
        self.away = False

    def acquire_lease(self, name: str, holder: str, ttl_ms: int) -> bool:
        if self.away:
            raise StoreUnavailable("down")
        self.holder = self.holder or holder
        return self.holder == holder

    def release_lease(self, name: str, holder: str) -> None:
        if self.holder == holder:
            self.holder = None


def test_one_leads_and_another_takes_over_on_release() -> None:
    store = LeaseStore()
    first, second = Leadership(store, "first"), Leadership(store, "second")
    first.renew(), second.renew()
    assert first.leads()
    assert not second.leads()
    first.release()
    second.renew()
    assert second.leads()
    assert not first.leads()


def test_a_leader_without_redis_leads_until_its_lease_ends() -> None:
    store = LeaseStore()
    leader = Leadership(store, "first")
    leader.renew()
    store.away = True
    leader.renew()
    assert leader.leads()

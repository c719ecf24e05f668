"""Which holdings and which hooked applications does this process have?"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..exceptions import StoreUnavailable
from ..limits.producer import Producer
from ..store import Store
from .holdings import About, Held, Holdings

if TYPE_CHECKING:
    from celery import Celery

_lock = threading.Lock()
_holdings: dict[tuple[int, str, str], Holdings] = {}
_producers: dict[tuple[int, str, str], Producer] = {}
_stores: dict[tuple[int, str, str], Store] = {}
_apps: list[Celery] = []
_task_queues: set[str] = set()  # those found so far; asked for with each claim
about = About()


def holdings_of(address: str, gate: str, open_store: Callable[[], Store]) -> Holdings:
    """This process's holdings of a gate; a forked child begins with none."""
    key = (os.getpid(), address, gate)
    with _lock:
        found = _holdings.get(key)
        if found is None:
            found = _holdings[key] = Holdings(open_store, about)
        return found


def own_holdings() -> list[Holdings]:
    return [h for (pid, _, _), h in list(_holdings.items()) if pid == os.getpid()]


def producer_of(address: str, gate: str, store: Store) -> Producer:
    """This process as a producer of a gate; a forked child is another one."""
    key = (os.getpid(), address, gate)
    with _lock:
        found = _producers.get(key)
        if found is None:
            found = Producer()
            _producers[key] = found
            _stores[key] = store
        return found


def end_producers() -> None:
    """At the end of a process its credits are given back."""
    for key, producer in list(_producers.items()):
        if key[0] == os.getpid():
            try:
                producer.end(_stores[key])
            except (StoreUnavailable, OSError):
                pass  # they run out by themselves


atexit.register(end_producers)


def held_by_tag(tag: str) -> tuple[Held, Holdings] | None:
    """The delivery that a tag names, with the holdings that keep it."""
    for holdings in own_holdings():
        held = holdings.find(tag)
        if held is not None:
            return held, holdings
    return None


def add_app(app: Celery) -> None:
    if app not in _apps:
        _apps.append(app)


def is_hooked(app: Celery) -> bool:
    return app in _apps


def is_task_queue(name: str) -> bool:
    """Whether a hooked application declares this queue for tasks.

    Reply, pidbox and event queues are not among them; they stay on the stock path.
    """
    if name in _task_queues:
        return True
    found = any(name in app.amqp.queues or name == app.conf.task_default_queue for app in _apps)
    if found:
        _task_queues.add(name)
    return found


def knows_task(name: str) -> bool:
    """Whether a task of this name can run here."""
    return any(name in app.tasks for app in _apps)

"""Which Celery app do a bench's producer and its worker share, on either side?

A worker loads this module as its app and finds its broker in the environment; a producer calls ``build_app``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery
from celery.signals import worker_ready

BROKER_VARIABLE = "SLUICEGATE_BENCH_BROKER"
WAITS_VARIABLE = "SLUICEGATE_BENCH_WAITS"
READY_VARIABLE = "SLUICEGATE_BENCH_READY"


def build_app(broker_url: str) -> Celery:
    app = Celery("bench", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_default_queue="bench",
        task_ignore_result=True,
        task_acks_late=True,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )
    if not broker_url.startswith("sluicegate"):
        # The best that stock Celery can be set up to do: the queue that a worker names first goes first.
        app.conf.broker_transport_options = {"queue_order_strategy": "priority"}
    app.task(name="bench.noop")(noop)
    app.task(name="bench.pause")(pause)
    app.task(name="bench.note_wait")(note_wait)
    app.task(name="bench.work")(work)
    if broker_url.startswith("sluicegate"):
        from .. import install

        install(app)
    return app


def noop() -> None:
    """What a job costs when it does nothing: all that is left is the queue's own."""


def pause(seconds: float) -> None:
    time.sleep(seconds)


def note_wait(sent_at: float) -> None:
    """Note how long this job waited; producer and worker share one machine and so one clock."""
    _note(f"{(time.time() - sent_at) * 1000:.2f}")


def work(queue: str, minute: int, offered_at: float, seconds: float) -> None:
    """Work that another machine does: note how long it waited and how long until it was done, in s."""
    waited_s = time.time() - offered_at
    time.sleep(seconds)
    _note(f"{queue} {minute} {waited_s:.4f} {time.time() - offered_at:.4f}")


def _note(line: str) -> None:
    handle = os.open(os.environ[WAITS_VARIABLE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, line.encode() + b"\n")
    os.close(handle)


def read_waits(path: Path) -> list[float]:
    return [float(line) for line in path.read_text().split()] if path.exists() else []


def _say_ready(**_: object) -> None:
    Path(os.environ[READY_VARIABLE]).touch()


if BROKER_VARIABLE in os.environ:
    app = build_app(os.environ[BROKER_VARIABLE])
    worker_ready.connect(_say_ready, weak=False)

"""Which Celery app do a bench's producer and its worker share, on either side?

A worker loads this module as its app and finds its broker in the environment; a producer calls ``build_app``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery

BROKER_VARIABLE = "SLUICEGATE_BENCH_BROKER"
WAITS_VARIABLE = "SLUICEGATE_BENCH_WAITS"


def build_app(broker_url: str) -> Celery:
    app = Celery("bench", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_default_queue="bench",
        task_ignore_result=True,
        task_acks_late=True,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )
    app.task(name="bench.noop")(noop)
    app.task(name="bench.pause")(pause)
    app.task(name="bench.note_wait")(note_wait)
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
    line = f"{(time.time() - sent_at) * 1000:.2f}\n".encode()
    handle = os.open(os.environ[WAITS_VARIABLE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, line)
    os.close(handle)


def read_waits(path: Path) -> list[float]:
    return [float(line) for line in path.read_text().split()] if path.exists() else []


if BROKER_VARIABLE in os.environ:
    app = build_app(os.environ[BROKER_VARIABLE])

"""Which jobs do tests give to real workers? Each writes to a witness file what it did, and when.

A worker loads this module as its app; a test calls ``build_app`` with the same broker.
"""

from __future__ import annotations

import os
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from celery import Celery, Task, chord
from celery.exceptions import Ignore, Reject

from workers import DownstreamDropped, install
from workers.transport import delivery

BROKER, FILE = "WITNESS_BROKER", "WITNESS_FILE"


class Unprintable(Exception):
    def __init__(self, lock: Any) -> None:
        super().__init__(lock)
        self.lock = lock

    def __str__(self) -> str:
        raise RuntimeError("no words")


def write(*words: Any) -> None:
    """One line, in one write: what a killed job did can be counted."""
    line = " ".join(str(word) for word in (*words, os.getpid(), int(time.time() * 1000))) + "\n"
    handle = os.open(os.environ[FILE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, line.encode())
    os.close(handle)


def seen(word: str, name: str) -> int:
    """How often a witness wrote ``word name`` so far."""
    path = Path(os.environ[FILE])
    if not path.exists():
        return 0
    return sum(line.split()[:2] == [word, name] for line in path.read_text().splitlines())


def note(name: str, seconds: float = 0, value: Any = None) -> Any:
    write("start", name)
    time.sleep(seconds)
    write("end", name)
    return name if value is None else value


def take_all(values: list[Any], name: str) -> list[Any]:
    write("start", name)
    write("end", name)
    return values


def fail(name: str, message: str = "asked to fail") -> None:
    write("start", name)
    raise ValueError(message)


def fail_without_words(name: str) -> None:
    import threading

    write("start", name)
    raise Unprintable(threading.Lock())


def retry(self: Task, name: str, times: int = 1, countdown: float = 0) -> int:
    write("start", name)
    if self.request.retries < times:
        raise self.retry(countdown=countdown, max_retries=times, exc=ValueError("again"))
    write("end", name)
    return self.request.retries


def retry_too_often(self: Task, name: str) -> None:
    write("start", name)
    raise self.retry(countdown=0, max_retries=2, exc=ValueError("still no"))


def fail_twice(name: str) -> str:
    write("start", name)
    if seen("start", name) < 3:
        raise ConnectionResetError("not yet")
    write("end", name)
    return name


def ignore(name: str) -> None:
    write("start", name)
    raise Ignore


def reject(name: str, requeue: bool = False) -> str:
    write("start", name)
    if not requeue or seen("start", name) == 1:
        raise Reject("cannot", requeue=requeue)
    write("end", name)
    return name


def put_back(name: str) -> None:
    write("start", name)
    raise Reject("not mine", requeue=True)


def cheap(name: str, *_: Any) -> str:
    write("cheap", name)
    return "cheap"


def careful(name: str, seconds: float) -> None:
    """Asks before its effect whether it is still wanted."""
    write("start", name)
    write("left", str(delivery.remaining_s() is not None))
    time.sleep(seconds)
    delivery.before_effect(name)
    write("effect", name)


def replace(self: Task, name: str, many: bool = False) -> Any:
    write("start", name)
    tasks = self.app.tasks
    if many:
        header = [tasks["w.note"].si(f"{name}-{n}", value=n) for n in range(3)]
        return self.replace(chord(header, tasks["w.take_all"].s(f"{name}-all"), app=self.app))
    return self.replace(tasks["w.note"].si(f"{name}-2", value=7))


def die(name: str, times: int = 1_000_000) -> str:
    write("start", name)
    if seen("start", name) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    write("end", name)
    return name


def give_much(name: str, size: int) -> str:
    write("start", name)
    return "x" * size


def spawn(self: Task, name: str, number: int) -> list[str]:
    """Offers new jobs from inside a job."""
    write("start", name)
    told = []
    for index in range(number):
        try:
            self.app.tasks["w.note"].apply_async((f"{name}-{index}",), countdown=1)
            told.append("accepted")
        except Exception as refusal:  # noqa: BLE001 the name of whatever is raised is the answer
            told.append(type(refusal).__name__)
    return told


def call_sink(url: str, reports: bool = True) -> int:
    """Calls a downstream; tells its latency by itself, or lets its run time and its exception speak."""
    if not reports:
        return ask(url)
    with delivery.downstream() as call:
        try:
            return ask(url)
        except DownstreamDropped:
            call.dropped()
            return 503


def ask(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as fault:
        raise DownstreamDropped(f"answered {fault.code}") from None


def build_app(broker: str) -> Celery:
    app = Celery("witness", broker=broker, backend=broker, set_as_current=False)
    app.conf.update(
        task_default_queue="normal",
        task_serializer="json",
        accept_content=["json"],
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        redis_socket_timeout=5,
        result_expires=600,
    )
    plain = (
        note,
        take_all,
        fail,
        fail_without_words,
        ignore,
        reject,
        put_back,
        die,
        give_much,
        cheap,
        careful,
    )
    for function in plain:
        app.task(name=f"w.{function.__name__}")(function)
    for function in (retry, retry_too_often, replace, spawn):
        app.task(name=f"w.{function.__name__}", bind=True)(function)
    again = {"autoretry_for": (ConnectionResetError,), "default_retry_delay": 0}
    app.task(name="w.fail_twice", **again)(fail_twice)
    app.task(name="w.limited", time_limit=2)(note)
    app.task(name="w.call_sink", downstream="sink")(call_sink)
    app.task(name="w.hang", downstream="sink", time_limit=1)(note)
    app.task(name="w.softly_limited", soft_time_limit=1)(note)
    return install(app)


if BROKER in os.environ:
    app = build_app(os.environ[BROKER])

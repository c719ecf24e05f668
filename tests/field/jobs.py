"""Which jobs do these tests bring into an installation? Such as no careful person would write.

Loaded by every process of the installation through `SLUICEGATE_IMPORTS`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from celery import Task, shared_task
from celery.exceptions import WorkerShutdown

from workers.exceptions import StoreUnavailable
from workers.tasks.drills import append
from workers.transport import delivery

from .markup import markup


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Demanding(Exception):
    """Can be made, and so pickled, but not made again from its arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


class Stubborn(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("not to be carried")


class Unreadable:
    def __repr__(self) -> str:
        raise RuntimeError("no picture")


def _circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def _deep() -> list[Any]:
    nest: list[Any] = []
    for _ in range(100_000):
        nest = [nest]
    return nest


#: What a job may return that JSON, pickle or a person cannot take.
RETURNS: dict[str, Callable[[], Any]] = {
    "nan": lambda: float("nan"),
    "infinity": lambda: {"load": [float("inf"), -float("inf")]},
    "2^53+1": lambda: 2**53 + 1,
    "a thousand digits": lambda: 10**1000,
    "five thousand digits": lambda: 10**5000,
    "half a character": lambda: "a\ud800b",
    "nul": lambda: "a\x00b",
    "bytes": lambda: b"\xff\x00",
    "a set": lambda: {1, 2},
    "an object": object,
    "an object without a picture": Unreadable,
    "a lock": threading.Lock,
    "a function": lambda: _circle,
    "a generator": lambda: (n for n in range(3)),
    "an exception": lambda: ValueError("returned"),
    "a circle": _circle,
    "a deep nest": _deep,
    "a key that is a tuple": lambda: {(1, 2): 3},
    "5 MB": lambda: "x" * 5_000_000,
    "50 MB": lambda: "x" * 50_000_000,
}


def _raise_in_a_chain() -> None:
    try:
        raise KeyError("first")
    except KeyError as first:
        second = ValueError("second")
        first.__cause__ = second
        raise second from first


def _raise(fault: BaseException) -> None:
    raise fault


def _recurse() -> None:
    _recurse()


def _make_local() -> BaseException:
    class Local(Exception):
        pass

    return Local("of nowhere")


#: What a job may raise that cannot be told, carried or kept.
RAISES: dict[str, Callable[[], Any]] = {
    "wordless": lambda: _raise(Wordless()),
    "a cause without words": lambda: _raise_from(ValueError("told"), Wordless()),
    "demanding": lambda: _raise(Demanding("a", "b")),
    "stubborn": lambda: _raise(Stubborn("x")),
    "a lock inside": lambda: _raise(ValueError(threading.Lock())),
    "an object without a picture inside": lambda: _raise(ValueError(Unreadable())),
    "of nowhere": lambda: _raise(_make_local()),
    "a circle of causes": _raise_in_a_chain,
    "endless recursion": _recurse,
    "a group": lambda: _raise(ExceptionGroup("many", [ValueError("a"), Wordless()])),
    "5 MB": lambda: _raise(ValueError("x" * 5_000_000)),
    "a name of 5 kB": lambda: _raise(type("N" * 5_000, (Exception,), {})("x")),
    "half a character": lambda: _raise(ValueError("a\ud800b")),
    "nul": lambda: _raise(ValueError("a\x00b\x1b[31m")),
    "no memory": lambda: _raise(MemoryError()),
    "exit": lambda: _raise(SystemExit(3)),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "a generator's exit": lambda: _raise(GeneratorExit()),
    "no exception": lambda: _raise("text"),  # type: ignore[arg-type]
}


def _raise_from(fault: BaseException, cause: BaseException) -> None:
    raise fault from cause


@shared_task(name="field.give")
def give(kind: str) -> Any:
    return RETURNS[kind]()


@shared_task(name="field.throw")
def throw(kind: str) -> None:
    RAISES[kind]()


@shared_task(name="field.retry_with", bind=True)
def retry_with(self: Task, kind: str) -> None:
    """Asks for another try because of something that cannot be told, and never succeeds."""
    try:
        RAISES[kind]()
    except Exception as fault:  # noqa: BLE001 the kinds are of every type
        raise self.retry(exc=fault, countdown=0, max_retries=1) from None


@shared_task(name="field.outlive", time_limit=1)
def outlive(seconds: float) -> None:
    """Has a hard time limit of a second and does not keep it."""
    time.sleep(seconds)


@shared_task(name="field.ignore_signals", time_limit=1)
def ignore_signals(seconds: float) -> None:
    """Neither keeps its time limit nor listens to who reminds it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.1)


@shared_task(name="field.fail_once", bind=True)
def fail_once(self: Task, name: str, text: str) -> None:
    """Appends its line, then fails; the second time only appends."""
    append(name, text)
    if not self.request.retries:
        raise self.retry(countdown=0, max_retries=1, exc=ValueError("once"))


class _DiesAfter(Task):
    def after_return(self, *args: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@shared_task(name="field.die_after", base=_DiesAfter)
def die_after(name: str) -> str:
    """Is done, its result stored, when its process dies."""
    append(name, "x")
    return "done"


@shared_task(name="field.break_worker")
def break_worker() -> None:
    """Breaks what the worker's own loop needs, so that the whole worker ends with an error."""
    raise WorkerShutdown(1)


@shared_task(name="field.try_again", bind=True)
def try_again(self: Task, countdown_s: float) -> None:
    """Fails at first and is to be tried again after a while."""
    if not self.request.retries:
        raise self.retry(countdown=countdown_s, max_retries=1, exc=ValueError("later"))


@shared_task(name="field.guarded")
def guarded(file: str, name: str, seconds: float) -> None:
    """Says when it starts and, by which delivery, when its fenced effect is done: no older one writes it."""
    own = delivery.current()
    assert own is not None
    append(file, f"start {name}", seconds)
    while True:
        try:
            delivery.before_effect(name)
            break
        except StoreUnavailable:
            time.sleep(0.1)
    append(file, f"end {name} {own.epoch}")


class _Marked(Exception):
    pass


_Marked.__name__ = _Marked.__qualname__ = markup("exception")


@shared_task(name=markup("task"))
def marked(*said: str, seconds: float = 0) -> None:
    """Its name, what it is given and what it raises are markup."""
    time.sleep(seconds)
    exec(compile("raise fault", markup("file"), "exec"), {"fault": _Marked(*said)})  # noqa: S102

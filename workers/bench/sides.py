"""What is measured against what? Each side: a fresh server, a producer's app, and a worker when asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from celery import Celery

from ..admission.policy import parse_policy
from ..store import Store
from .app import BROKER_VARIABLE, READY_VARIABLE, WAITS_VARIABLE, build_app
from .server import run_server

SideName = Literal["gate", "stock"]
SIDES: Final[tuple[SideName, SideName]] = ("gate", "stock")
_SCHEMES: Final = {"gate": "sluicegate+socket", "stock": "redis+socket"}

#: No bound of the gate may end a measurement of its speed early.
WIDE: Final[Mapping[str, Any]] = {"max_count": 10_000_000}
WORKER_START_S = 30.0
ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the servers of one run stand."""

    binary: Path
    directory: Path


@dataclass(frozen=True, slots=True)
class Side:
    name: SideName
    app: Celery
    broker_url: str
    directory: Path
    store: Store | None  # the gate's side only

    def read_memory(self) -> int:
        """INFO's used_memory, in bytes."""
        with self.app.connection_for_write() as connection:
            return int(connection.default_channel.client.info("memory")["used_memory"])

    def read_server_cpu_s(self) -> float:
        """Processor time that the server has used, in s."""
        with self.app.connection_for_write() as connection:
            used = connection.default_channel.client.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def count_remaining(self, queues: Sequence[str]) -> int:
        """Jobs that wait or run, by each side's own book."""
        if self.store is not None:
            shown = self.store.snapshot()["queues"]
            rows = [shown[queue] for queue in queues if queue in shown]
            return sum(int(row["depth"]) + int(row["delayed"]) + int(row["in_flight"]) for row in rows)
        with self.app.connection_for_write() as connection:
            client = connection.default_channel.client
            return sum(int(client.llen(queue)) for queue in queues) + int(client.hlen("unacked"))


@contextmanager
def open_side(bench: Bench, name: SideName, policies: Mapping[str, Mapping[str, Any]]) -> Iterator[Side]:
    """A side with nothing in it. ``policies`` are the gate's, by queue; the stock side knows none."""
    directory = bench.directory / f"{name}-{time.monotonic_ns() % 10**9}"
    with run_server(bench.binary, directory) as path:
        broker_url = f"{_SCHEMES[name]}://{path}?virtual_host=0"
        store = None
        if name == "gate":
            store = Store.from_url(f"unix://{path}?db=0")
            for queue, fields in policies.items():
                store.publish_policy(queue, parse_policy(fields).as_fields(), version=1)
        app = build_app(broker_url)
        try:
            yield Side(name, app, broker_url, directory, store)
        finally:
            app.close()


@dataclass(frozen=True, slots=True)
class Worker:
    """Stock Celery's own worker command, with the same options on both sides."""

    process: subprocess.Popen[bytes]
    ready: Path

    def await_ready(self) -> None:
        give_up_at = time.monotonic() + WORKER_START_S
        while not self.ready.exists():
            if time.monotonic() > give_up_at or self.process.poll() is not None:
                log = self.ready.with_suffix(".log").read_text(errors="replace")[-2000:]
                raise TimeoutError(f"a worker was not ready within {WORKER_START_S:.0f} s\n{log}")
            time.sleep(0.05)

    def stop(self, *, patience_s: float = 10.0) -> None:
        """A warm shutdown; what is left of its pool then goes too."""
        self.process.terminate()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def start_worker(
    side: Side, *, queues: Sequence[str], prefetch: int, concurrency: int = 2, name: str = "worker"
) -> Worker:
    """``queues`` are in order of rank: stock serves the first of them first."""
    command = [sys.executable, "-m", "celery", "-A", "workers.bench.app", "worker", "--pool", "prefork"]
    command += ["--concurrency", str(concurrency), "--prefetch-multiplier", str(prefetch)]
    command += ["--queues", ",".join(queues), "--hostname", f"{name}@bench", "--loglevel", "ERROR"]
    command += ["--without-mingle", "--without-gossip"]
    ready = side.directory / f"{name}.ready"
    environment = {
        **os.environ,
        BROKER_VARIABLE: side.broker_url,
        WAITS_VARIABLE: str(side.directory / "waits"),
        READY_VARIABLE: str(ready),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    with ready.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    return Worker(process, ready)


@contextmanager
def run_worker(side: Side, *, queues: Sequence[str], prefetch: int, concurrency: int = 2) -> Iterator[Worker]:
    worker = start_worker(side, queues=queues, prefetch=prefetch, concurrency=concurrency)
    try:
        yield worker
    finally:
        worker.stop()

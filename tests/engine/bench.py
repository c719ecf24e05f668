"""What stands on a test's bench? A server, a gate, a producer, workers from outside, and a reaper."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from celery import Celery

from tests.support.processes import die_with_parent, kill_group
from tests.support.servers import RedisServer
from tests.support.waiting import wait_until
from workers.exceptions import StoreUnavailable
from workers.store import Operation, Store

from . import audit, witness

ROOT = Path(__file__).resolve().parents[2]
QUEUES = ("critical", "urgent", "normal", "bulk")

#: Without bounds; a lease that a busy machine can keep and a test can outwait.
POLICIES: dict[str, dict[str, Any]] = {
    "critical": {"strict_rank": 0, "lease_s": 4},
    "urgent": {"strict_rank": 1, "lease_s": 4},
    "normal": {"weight": 3, "lease_s": 4},
    "bulk": {"weight": 1, "lease_s": 4},
}


class Worker:
    """A Celery worker in a process group of its own, its output in a file."""

    def __init__(
        self, bench: Bench, *, name: str, pool: str, slots: int = 2, options: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.log = bench.directory / f"{name}.log"
        command = [sys.executable, "-m", "celery", "-A", "tests.engine.witness", "worker", "-P", pool]
        command += ["-c", str(slots), "-n", f"{name}@here", "-Q", ",".join(QUEUES), "-l", "INFO", *options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, witness.BROKER: bench.broker, witness.FILE: str(bench.file)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"the worker ended: {self.text[-2000:]}"
        return "ready." in self.text

    def send(self, number: int) -> None:
        """A signal to the whole process group."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        kill_group(self.process)

    def stop(self) -> None:
        """A warm shutdown, as an init system asks for it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
                raise


class Bench:
    """All of an engine but the monitor; of that, only the reaper, which can be stopped."""

    def __init__(
        self,
        *,
        durability: str = "everysec",
        max_memory_bytes: int = 256 << 20,
        policies: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="sg-b-"))
        self.server = RedisServer(
            self.directory / "r", durability=durability, max_memory_bytes=max_memory_bytes
        )
        self.server.start()
        self.broker = f"sluicegate+socket://{self.server.socket_path}?virtual_host=0"
        self.file = self.directory / "witness"
        os.environ[witness.FILE] = str(self.file)
        self.store = Store.from_url(self.server.url(), timeout_s=10)
        self.set_policies(policies or POLICIES)
        self.app: Celery = witness.build_app(self.broker)
        self.workers: list[Worker] = []
        self._stop = threading.Event()
        self._reaper = threading.Thread(target=self._reap, daemon=True)
        self._reaper.start()

    def set_policies(self, policies: dict[str, dict[str, Any]]) -> None:
        for queue, fields in policies.items():
            self.store.publish_policy(queue, fields, version=1)

    def start_worker(self, pool: str, *, slots: int = 2, options: tuple[str, ...] = ()) -> Worker:
        return self.start_workers(pool, slots=slots, options=options)[0]

    def start_workers(self, *pools: str, slots: int = 2, options: tuple[str, ...] = ()) -> list[Worker]:
        """A worker of each pool, started together."""
        started = []
        for pool in pools:
            worker = Worker(self, name=f"w{len(self.workers)}", pool=pool, slots=slots, options=options)
            self.workers.append(worker)
            started.append(worker)
        for worker in started:
            wait_until(worker.is_ready, within_s=60, what=f"the worker {worker.name} to be ready")
        return started

    def _reap(self) -> None:
        own = Store.from_url(self.server.url())
        while not self._stop.wait(0.25):
            try:
                own.reap(100, queues=QUEUES)
            except StoreUnavailable:
                pass  # the server is away for a test; the monitor's reaper goes on too

    # What a test asks.

    def task(self, name: str) -> Any:
        return self.app.tasks[f"w.{name}"]

    def lines(self, name: str = "") -> list[list[str]]:
        """What witnesses wrote: word, name, pid, time in ms."""
        if not self.file.exists():
            return []
        rows = [line.split() for line in self.file.read_text().splitlines()]
        return [row for row in rows if not name or row[1] == name]

    def count(self, word: str, name: str) -> int:
        return sum(row[0] == word for row in self.lines(name))

    def operation(self, op_id: str) -> Operation:
        found = self.store.read_operation(op_id)
        assert found is not None, f"the gate does not know {op_id}"
        return found

    def await_status(self, op_id: str, *statuses: str, within_s: float = 30) -> Operation:
        wait_until(
            lambda: self.operation(op_id).status in statuses,
            within_s=within_s,
            what=f"{op_id} to be {' or '.join(statuses)}",
        )
        return self.operation(op_id)

    def totals(self) -> Counter[str]:
        """Counters over all queues."""
        sums: Counter[str] = Counter()
        for row in self.store.snapshot()["queues"].values():
            sums.update({name: value for name, value in row["totals"].items() if isinstance(value, int)})
            sums.update({name: row[name] for name in ("depth", "delayed", "in_flight")})
        return sums

    def await_rest(self, *, within_s: float = 30) -> None:
        """Waits until nothing waits or runs, then lets everything be recounted."""

        def is_at_rest() -> bool:
            sums = self.totals()
            return sums["depth"] + sums["delayed"] + sums["in_flight"] == 0

        wait_until(is_at_rest, within_s=within_s, what="every job to end")
        audit.check(self.store)

    def close(self) -> None:
        self._stop.set()
        for worker in self.workers:
            worker.kill()
        self._reaper.join(5)
        # A result that is forgotten later would wait 20 s for this server to come back.
        self.app.backend.remove_pending_result = lambda result: result
        self.app.close()
        self.store.client.close()
        self.server.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

"""What becomes of accepted work when every kind of process is killed over and over under load?

All processes of an installation are started here one by one, so that each can be killed at any moment and
is started again at once. Jobs are offered over HTTP and by Celery, each with a key or an id of its own, again
and again until there was an answer: so each is known to be accepted.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from celery import Celery

from tests.engine import audit
from tests.support.processes import children_of, die_with_parent
from tests.support.servers import RedisServer
from tests.support.stack import API_KEY, PASSWORD, ROOT, clean_environment
from tests.support.waiting import wait_until
from workers import AdmissionRefused, install
from workers.store import Store
from workers.supervise import ports

QUEUES = ("critical", "urgent", "normal", "bulk")
POLICY = {"lease_s": 2, "max_deliveries": 50, "hold_s": 1}
PREPARE = (
    "import django; django.setup(); from django.core.management import call_command; "
    "call_command('migrate', verbosity=0); from workers.actions import bootstrap; "
    "from workers.actions.gate import open_gate; "
    "bootstrap.prepare_database(); bootstrap.restore_gate(open_gate())"
)
LEDGER = "storm.txt"


@dataclass(slots=True)
class Figures:
    """What a storm did and what was seen after it."""

    kills: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    never_answered: int = 0
    submits: int = 0
    lost: list[str] = field(default_factory=list)
    twice_started: int = 0
    twice_done: int = 0
    unexplained: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    redelivered: int = 0
    seconds: float = 0.0
    ended_unasked: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(self.kills.items()))
        return (
            f"{sum(self.kills.values())} kills in {self.seconds:.0f} s ({kinds}); "
            f"{self.accepted} jobs accepted in {self.submits} submits, "
            f"{self.never_answered} never answered; lost {len(self.lost)}; "
            f"started more than once {self.twice_started}, "
            f"of these without a counted loss {len(self.unexplained)}; "
            f"effects again by a newer delivery {self.twice_done}, by an older one {len(self.stale)}; "
            f"redeliveries counted {self.redelivered}; "
            f"runs of what was never accepted {len(self.strangers)}; "
            f"ended without being killed {dict(self.ended_unasked)}"
        )


class Process:
    """One process of the installation, in a group of its own."""

    def __init__(self, storm: Storm, kind: str, words: list[str]) -> None:
        self.storm, self.kind, self.words = storm, kind, words
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.storm.data_dir / f"{self.kind}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.words],
                cwd=ROOT,
                env=self.storm.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def children(self) -> list[int]:
        assert self.process is not None
        try:
            return children_of(self.process.pid)
        except OSError:
            return []

    def kill(self, *, whole_group: bool) -> None:
        assert self.process is not None
        try:
            (os.killpg if whole_group else os.kill)(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)


class Feeder(threading.Thread):
    """Offers small jobs until told to stop; each until it is answered."""

    def __init__(self, storm: Storm, number: int) -> None:
        super().__init__(daemon=True)
        self.storm, self.number, self.ending = storm, number, threading.Event()
        self.accepted: dict[str, str] = {}
        self.unanswered: set[str] = set()
        self.submits = 0
        self.answers: Counter[str] = Counter()

    def run(self) -> None:
        dice = random.Random(self.number)
        with httpx.Client(base_url=self.storm.base_url, timeout=5, trust_env=False) as client:
            offer = (
                self._offer_by_celery if self.number % 2 else lambda *job: self._offer_by_http(client, *job)
            )
            for count in range(10_000_000):
                if self.ending.is_set():
                    return
                self._offer(offer, f"j{self.number}-{count}", dice.choice(QUEUES), dice.uniform(0, 0.3))
                self.ending.wait(self.storm.pause_s)

    def _offer(self, offer: Callable[..., str], name: str, queue: str, seconds: float) -> None:
        refused = False
        for _ in range(300):
            self.submits += 1
            try:
                self.accepted[name] = offer(name, queue, round(seconds, 3))
                return
            except AdmissionRefused as fault:
                refused = (
                    fault.reason != "unavailable"
                )  # a queue may be closed for as long as this, by its mode
            except Exception as fault:  # noqa: BLE001 each door has its own errors: the same again, with the same key
                refused = False
                self.answers[f"{type(fault).__name__} {fault}"[:60]] += 1
            time.sleep(0.2)
        if not refused:
            self.unanswered.add(name)

    @staticmethod
    def _offer_by_http(client: httpx.Client, name: str, queue: str, seconds: float) -> str:
        body = {"task": "field.guarded", "args": [LEDGER, name, seconds], "queue": queue}
        headers = {"Idempotency-Key": name, "Authorization": f"Bearer {API_KEY}"}
        answer = client.post("/api/v1/jobs", json=body, headers=headers)
        if answer.status_code != 202:
            reason = str(answer.json().get("reason"))
            if answer.status_code in (429, 503):
                raise AdmissionRefused(queue, reason, 0.2)
            raise RuntimeError(f"{answer.status_code} {reason}")
        return str(answer.json()["operation_id"])

    def _offer_by_celery(self, name: str, queue: str, seconds: float) -> str:
        arguments = (LEDGER, name, seconds)
        self.storm.app.send_task("field.guarded", arguments, queue=queue, task_id=name, retry=False)
        return name


class Storm:
    def __init__(self, *, feeders: int = 2, pause_s: float = 0.03) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="sg-storm-"))
        self.data_dir = self.directory / "d"
        self.data_dir.mkdir()
        self.server = RedisServer(self.directory / "r", durability="always")
        self.server.start()
        port = ports.find_free()
        self.base_url, self.pause_s = f"http://127.0.0.1:{port}", pause_s
        self.environment = clean_environment(
            {
                "SLUICEGATE_DATA_DIR": str(self.data_dir),
                "SLUICEGATE_REDIS_URL": self.server.url(),
                "SLUICEGATE_DURABILITY": "always",
                "SLUICEGATE_PORT": str(port),
                "SLUICEGATE_DRILLS": "1",
                "SLUICEGATE_IMPORTS": "tests.field.jobs",
                "SLUICEGATE_RETENTION_S": "86400",  # a long storm is recounted to its first job
                "SLUICEGATE_API_KEY": API_KEY,
                "SLUICEGATE_OPERATOR_PASSWORD": PASSWORD,
                "DJANGO_SETTINGS_MODULE": "config.settings",
            }
        )
        subprocess.run(
            [sys.executable, "-c", PREPARE],
            cwd=ROOT,
            env=self.environment,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        broker = f"sluicegate+socket://{self.server.socket_path}?virtual_host=0"
        self.app = install(Celery("feeder", broker=broker, backend="disabled://", set_as_current=False))
        self.store = Store.from_url(self.server.url(), timeout_s=10)
        celery = [
            "-m",
            "celery",
            "-A",
            "config",
            "worker",
            "-c",
            "2",
            "-Q",
            ",".join(QUEUES),
            "-l",
            "WARNING",
        ]
        web = ["-m", "uvicorn", "config.asgi:application", "--port", str(port), "--log-level", "warning"]
        self.prefork = Process(self, "prefork", [*celery, "-P", "prefork", "-n", "prefork@here"])
        self.threads = Process(self, "threads", [*celery, "-P", "threads", "-n", "threads@here"])
        self.web = Process(self, "web", [*web, "--no-access-log", "--lifespan", "off"])
        self.monitor = Process(self, "monitor", ["manage.py", "monitor"])
        self.processes = [self.web, self.monitor, self.prefork, self.threads]
        self.feeders = [Feeder(self, number) for number in range(feeders)]
        self.figures = Figures()

    def start(self) -> None:
        with httpx.Client(base_url=self.base_url, timeout=5, trust_env=False) as client:
            for process in self.processes:
                process.start()
            wait_until(lambda: client.get("/readyz").status_code == 200, within_s=60, what="the door to open")
            for queue in QUEUES:
                answer = client.put(
                    f"/api/v1/policies/{queue}", json=POLICY, headers={"Authorization": f"Bearer {API_KEY}"}
                )
                answer.raise_for_status()
        for name in ("prefork@here", "threads@here"):
            wait_until(lambda name=name: name in self._workers(), within_s=60, what=f"{name} to be up")

    def _workers(self) -> set[str]:
        return {row["name"] for row in self.store.snapshot()["workers"]}

    # The deeds.

    def kill_child(self) -> None:
        """A process in which jobs run; its worker lives on and makes a new one."""
        wait_until(self._has_children, within_s=300, what="the worker to have children")
        for pid in self.prefork.children()[-1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _has_children(self) -> bool:
        self.revive()
        return len(self.prefork.children()) > 1

    def revive(self) -> None:
        """Starts what ended by itself, as a worker does one of whose children dies while it starts."""
        for process in self.processes:
            if process.process is not None and process.process.poll() is not None:
                self.figures.ended_unasked[f"{process.kind} {process.process.returncode}"] += 1
                process.start()

    def kill_worker(self, *, whole_group: bool) -> None:
        self.prefork.kill(whole_group=whole_group)
        self.prefork.start()

    def kill(self, process: Process) -> None:
        process.kill(whole_group=True)
        process.start()

    def kill_server(self) -> None:
        self.server.kill()
        self.server.start()

    def deeds(self) -> dict[str, Callable[[], None]]:
        return {
            "child": self.kill_child,
            "worker": lambda: self.kill_worker(whole_group=False),
            "worker and children": lambda: self.kill_worker(whole_group=True),
            "worker of threads": lambda: self.kill(self.threads),
            "web": lambda: self.kill(self.web),
            "monitor": lambda: self.kill(self.monitor),
            "redis": self.kill_server,
        }

    def rage(
        self, kills: dict[str, int], *, longest_pause_s: float, within_s: float, seed: int = 7
    ) -> Figures:
        """Kills so many of each kind in a random order (fewer, where the time is up), then counts."""
        began, dice, deeds = time.monotonic(), random.Random(seed), self.deeds()
        order = [kind for kind, number in kills.items() for _ in range(number)]
        dice.shuffle(order)
        for feeder in self.feeders:
            feeder.start()
        for kind in order:
            if time.monotonic() - began > within_s:
                break
            time.sleep(dice.uniform(0.05, longest_pause_s))
            self.revive()
            deeds[kind]()
            self.figures.kills[kind] += 1
        for feeder in self.feeders:
            feeder.ending.set()
        for feeder in self.feeders:
            feeder.join(120)
        self.figures.seconds = time.monotonic() - began
        self._await_rest()
        return self._count()

    def _await_rest(self) -> None:
        def is_at_rest() -> bool:
            self.revive()
            rows = self.store.snapshot()["queues"].values()
            return sum(row["depth"] + row["delayed"] + row["in_flight"] for row in rows) == 0

        wait_until(is_at_rest, within_s=180, what="every job to end")

    def _count(self) -> Figures:
        figures = self.figures
        accepted = {name: op_id for feeder in self.feeders for name, op_id in feeder.accepted.items()}
        unanswered = {name for feeder in self.feeders for name in feeder.unanswered}
        rows = [line.split() for line in (self.data_dir / LEDGER).read_text().splitlines()]
        starts = Counter(name for word, name, *_ in rows if word == "start")
        epochs: defaultdict[str, list[int]] = defaultdict(list)
        for _, name, *epoch in (row for row in rows if row[0] == "end"):
            epochs[name].append(int(epoch[0]))
        ends = {name: len(found) for name, found in epochs.items()}
        figures.stale = [name for name, found in epochs.items() if found != sorted(set(found))]
        figures.accepted, figures.never_answered = len(accepted), len(unanswered)
        figures.submits = sum(feeder.submits for feeder in self.feeders)
        figures.strangers = [name for name in starts if name not in accepted and name not in unanswered]
        figures.twice_started = sum(number > 1 for number in starts.values())
        figures.twice_done = sum(number > 1 for number in ends.values())
        for name, op_id in accepted.items():
            operation = self.store.read_operation(op_id)
            if operation is None or operation.status != "succeeded" or name not in ends:
                figures.lost.append(
                    f"{name} {operation.status if operation else 'unknown'} {ends.get(name, 0)}"
                )
            elif starts[name] > 1 + operation.lost_count:
                figures.unexplained.append(f"{name}: {starts[name]} starts, {operation.lost_count} losses")
        totals: Counter[str] = Counter()
        for row in self.store.snapshot()["queues"].values():
            totals.update({name: row["totals"][name] for name in ("accepted", "succeeded", "redelivered")})
        figures.redelivered = totals["redelivered"]
        assert totals["accepted"] == totals["succeeded"] >= len(accepted), totals
        audit.check(self.store)
        return figures

    def close(self) -> None:
        for feeder in self.feeders:
            feeder.ending.set()
        for process in self.processes:
            if process.process is not None:
                process.kill(whole_group=True)
        self.app.close()
        self.store.client.close()
        self.server.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

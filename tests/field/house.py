"""What do these tests meet? One installation, met from outside: HTTP, signals, Redis, a witness."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from tests.support.processes import kill_group
from tests.support.stack import ROOT, Stack, clean_environment
from tests.support.waiting import wait_until
from workers.store import Store

#: Ends that a job does not leave again.
ENDS = ("succeeded", "failed", "expired", "cancelled", "superseded", "shed", "lost")


class Worker:
    """A worker of the installation beside that of `make up`, in a process group of its own."""

    def __init__(
        self, house: House, *, queue: str, pool: str, slots: int, imports: str = "", name: str = ""
    ) -> None:
        plain = f"{pool}-{house.worker_count}"
        self.name = name or plain
        house.worker_count += 1
        log = (house.stack.data_dir / f"{plain}.log").open("wb")
        words = ["-m", "celery", "-A", "config", "worker", "-P", pool, "-c", str(slots), "-Q", queue]
        words += ["-n", f"{self.name}@here", "-l", "WARNING", "--without-mingle", "--without-gossip"]
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env={**house.environment, **({"SLUICEGATE_IMPORTS": imports} if imports else {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()

    def send(self, number: int) -> None:
        """A signal to the whole process group."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        kill_group(self.process)


class House:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.environment = clean_environment({**stack.settings, "SLUICEGATE_REDIS_URL": stack.redis_url})
        self.worker_count = 0
        self.queue_count = 0
        self.workers: list[Worker] = []
        self.http = stack.client()
        self.admin = stack.client(self.make_key("default", "admin"))
        # Looked at, and used for what the row of a fault does to Redis itself.
        self.store = Store.from_url(stack.redis_url, timeout_s=10)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.http.close()
        self.admin.close()
        self.store.client.close()

    def manage(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    def make_key(self, tenant: str, *scopes: str) -> str:
        return self.manage("apikey", "create", "--tenant", tenant, "--scopes", ",".join(scopes)).split()[0]

    # Queues and who serves them.

    def make_queue(self, **policy: Any) -> str:
        """A new queue of its own for a test."""
        name = f"q{self.queue_count}"
        self.queue_count += 1
        self.put_policy(name, **policy)
        return name

    def put_policy(self, queue: str, **policy: Any) -> None:
        self.admin.put(f"/api/v1/policies/{queue}", json=policy).raise_for_status()

    def start_worker(
        self, queue: str, *, pool: str = "threads", slots: int = 2, imports: str = "", name: str = ""
    ) -> Worker:
        worker = Worker(self, queue=queue, pool=pool, slots=slots, imports=imports, name=name)
        self.await_workers([worker])
        return worker

    def await_workers(self, started: list[Worker]) -> None:
        self.workers += started
        for worker in started:
            wait_until(lambda name=f"{worker.name}@here": self.worker(name)["state"] == "live", within_s=60)

    # What is seen.

    def frame(self) -> dict[str, Any]:
        document: dict[str, Any] = self.http.get("/api/v1/queues").raise_for_status().json()
        return document

    def row(self, queue: str) -> dict[str, Any]:
        found: dict[str, Any] = next(row for row in self.frame()["queues"] if row["name"] == queue)
        return found

    def worker(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(row for row in self.frame()["workers"] if row["name"] == name)
        return found

    def job(self, op_id: str) -> dict[str, Any]:
        document: dict[str, Any] = self.http.get(f"/api/v1/jobs/{op_id}").raise_for_status().json()
        return document

    def await_status(self, op_id: str, *statuses: str, within_s: float = 20) -> dict[str, Any]:
        wait_until(
            lambda: self.job(op_id)["status"] in statuses,
            within_s=within_s,
            what=f"{op_id} to be {' or '.join(statuses)}",
        )
        return self.job(op_id)

    def await_ends(self, ids: Iterable[str], *, within_s: float = 30) -> list[dict[str, Any]]:
        return [self.await_status(op_id, *ENDS, within_s=within_s) for op_id in ids]

    # What is done.

    def post(
        self, task: str, *args: Any, headers: dict[str, str] | None = None, **fields: Any
    ) -> httpx.Response:
        body = {"task": task, "args": list(args), **fields}
        return self.http.post("/api/v1/jobs", json=body, headers=headers)

    def submit(self, task: str, *args: Any, **fields: Any) -> str:
        answer = self.post(task, *args, **fields)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["operation_id"])

    def submit_many(self, jobs: list[dict[str, Any]]) -> list[str]:
        """All in one call, all accepted."""
        said = self.http.post("/api/v1/jobs/bulk", json=jobs).raise_for_status().json()
        assert said["refused"] == 0, said
        return [verdict["operation_id"] for verdict in said["verdicts"]]

    def submit_until_taken(self, jobs: list[dict[str, Any]]) -> None:
        """A busy machine may come too late with an offer, which is then refused; the refused come again."""
        left = list(jobs)

        def are_taken() -> bool:
            verdicts = self.http.post("/api/v1/jobs/bulk", json=left).raise_for_status().json()["verdicts"]
            left[:] = [
                job for job, verdict in zip(left, verdicts, strict=True) if verdict["status"] != "pending"
            ]
            return not left

        wait_until(are_taken, within_s=60, what="the offers to be taken")

    def witness(self, name: str) -> list[str]:
        """What jobs wrote into a file with `drill.append`, a line an effect."""
        path = self.stack.data_dir / name
        return path.read_text().splitlines() if path.exists() else []


def memory_of(pid: int) -> int:
    """Resident memory of a process in bytes."""
    with open(f"/proc/{pid}/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def watch(look: Callable[[], Any], until: Callable[[Any], bool], *, within_s: float) -> list[Any]:
    """Everything that was seen on the way, in order and without repeats, until the last is as wanted."""
    seen: list[Any] = []
    give_up = time.monotonic() + within_s
    while not (seen and until(seen[-1])):
        assert time.monotonic() < give_up, f"not within {within_s:g} s; seen {seen}"
        now = look()
        if not seen or seen[-1] != now:
            seen.append(now)
        time.sleep(0.03)
    return seen

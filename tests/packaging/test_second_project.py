"""Does the wheel serve a project that is not this one, with two lines of its own?

A separate venv gets the wheel and nothing of this checkout (its dependencies come from the running
environment by a .pth file, so that the test needs no network). A project with its own Celery app
produces and consumes through ``sluicegate+socket://``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import RedisServer
from tests.support.waiting import wait_until
from workers.store import Store

ROOT = Path(__file__).resolve().parents[2]

APP = """
import os, time
from celery import Celery, chord
import sluicegate

app = Celery("shop", broker=os.environ["BROKER"], backend=os.environ["BROKER"])
sluicegate.install(app)

@app.task
def add(x, y):
    return x + y

@app.task
def total(parts):
    return sum(parts)

@app.task(bind=True, max_retries=3)
def flaky(self, fails):
    if self.request.retries < fails:
        raise self.retry(exc=ValueError("not yet"), countdown=0)
    return self.request.retries

@app.task
def note(path, seconds=0):
    with open(path, "a") as witness:
        witness.write(f"start {os.getpid()}\\n")
        witness.flush()
        time.sleep(seconds)
        witness.write("end\\n")

@app.task
def die_once(path):
    with open(path, "a") as witness:
        witness.write("start\\n")
    if open(path).read().count("start") == 1:
        os.kill(os.getpid(), 9)
    return "survived"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(where), str(ROOT)], check=True, capture_output=True, timeout=120)
    return next(where.glob("sluicegate-*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("shop") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=60)
    site = next((venv / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    return venv / "bin" / "python"


class Shop:
    """The other project: its folder, its interpreter, its worker."""

    def __init__(self, folder: Path, python: Path, server: RedisServer) -> None:
        self.folder, self.python = folder, python
        folder.mkdir()
        (folder / "shop.py").write_text(APP)
        broker = server.url().replace("unix://", "sluicegate+socket://").partition("?")[0]
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
        self.env = {**kept, "BROKER": broker}
        self.worker: subprocess.Popen[bytes] | None = None

    def run(self, code: str) -> Any:
        """What a producer process of the project prints as JSON."""
        script = "import json, sluicegate\nfrom shop import *\n" + textwrap.dedent(code)
        done = subprocess.run(
            [str(self.python), "-c", script], cwd=self.folder, env=self.env, capture_output=True, timeout=60
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def start_worker(self, name: str = "w") -> None:
        command = [str(self.python), "-m", "celery", "-A", "shop", "worker", "-c", "1", "-n", f"{name}@shop"]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.worker = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_worker(self) -> None:
        """kill -9 of the parent and its children."""
        if self.worker is not None and self.worker.poll() is None:
            os.killpg(self.worker.pid, signal.SIGKILL)
            self.worker.wait(10)


@pytest.fixture
def shop(tmp_path: Path, python: Path, redis_server: RedisServer, store: Store) -> Iterator[Shop]:
    store.publish_policy("normal", {"max_count": 5, "lease_s": 3, "max_deliveries": 3}, version=1)
    made = Shop(tmp_path / "shop", python, redis_server)
    yield made
    made.kill_worker()


def status(store: Store, op_id: str) -> str | None:
    store.reap(100, queues=["normal"])  # what a monitor does each second
    operation = store.read_operation(op_id)
    return operation and operation.status


def test_the_wheel_holds_the_engine_and_nothing_of_the_room(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"sluicegate"}
    assert "sluicegate/store/lua/admit.lua" in names
    assert "sluicegate/store/lua/includes/base.lua" in names
    assert not [name for name in names if "models" in name or "management" in name or "loops" in name]
    sources = [zipfile.ZipFile(wheel).read(name) for name in names if name.endswith(".py")]
    assert not [text for text in sources if b"import django" in text or b"from django" in text]


def test_a_project_of_its_own_is_admitted_refused_and_told_when_to_return(shop: Shop, store: Store) -> None:
    found = shop.run(
        """
        accepted, refused = [], None
        for number in range(7):
            try:
                accepted.append(add.delay(number, 1).id)
            except sluicegate.AdmissionRefused as exc:
                refused = [exc.queue, exc.reason, exc.retry_after]
        print(json.dumps({"accepted": accepted, "refused": refused}))
        """
    )
    assert len(found["accepted"]) == 5
    queue, reason, retry_after = found["refused"]
    assert (queue, reason) == ("normal", "count")
    assert retry_after > 0
    totals = store.snapshot()["queues"]["normal"]["totals"]
    assert (totals["offered"], totals["accepted"], totals["refused"]) == (7, 5, 2)
    shop.start_worker()
    for op_id in found["accepted"]:
        wait_until(lambda op_id=op_id: status(store, op_id) == "succeeded", within_s=30, what=f"{op_id} done")


def test_retries_and_chords_of_the_project_come_to_their_end(shop: Shop, store: Store) -> None:
    shop.start_worker()
    found = shop.run(
        """
        retried = flaky.delay(2)
        joined = chord([add.s(n, n) for n in range(4)], total.s()).apply_async()
        print(json.dumps([retried.id, retried.get(timeout=40), joined.id, joined.get(timeout=40)]))
        """
    )
    assert (found[1], found[3]) == (2, 12)
    for op_id in (found[0], found[2]):
        wait_until(
            lambda op_id=op_id: status(store, op_id) == "succeeded", within_s=20, what=f"{op_id} settled"
        )
    assert store.snapshot()["queues"]["normal"]["totals"]["retried"] == 2


def test_a_job_that_loses_its_child_runs_again(shop: Shop, store: Store, tmp_path: Path) -> None:
    shop.start_worker()
    witness = tmp_path / "died"
    op_id, result = shop.run(
        f"r = die_once.delay({str(witness)!r}); print(json.dumps([r.id, r.get(timeout=50)]))"
    )
    assert result == "survived"
    wait_until(lambda: status(store, op_id) == "succeeded", within_s=20, what="it is settled")
    operation = store.read_operation(op_id)
    assert operation is not None
    assert (operation.attempts, operation.lost_count) == (2, 1)
    assert witness.read_text().count("start") == 2


def test_a_job_outlives_the_death_of_its_whole_worker(shop: Shop, store: Store, tmp_path: Path) -> None:
    shop.start_worker("first")
    witness = tmp_path / "long"
    op_id = shop.run(f"print(json.dumps(note.delay({str(witness)!r}, 2).id))")
    wait_until(lambda: witness.exists() and "start" in witness.read_text(), within_s=30, what="it runs")
    shop.kill_worker()
    shop.start_worker("second")
    wait_until(lambda: status(store, op_id) == "succeeded", within_s=40, what="the second worker has done it")
    operation = store.read_operation(op_id)
    assert operation is not None
    assert operation.lost_count == 1
    assert (witness.read_text().count("start"), witness.read_text().count("end")) == (2, 1)

"""Does `make up` bring everything, keep it, and leave nothing behind, however it is ended?"""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.stack import ROOT, Stack, clean_environment
from tests.support.waiting import wait_until
from workers.supervise import ports
from workers.supervise.processes import find_marked

LATER_S = 600


@pytest.fixture(scope="module")
def copy() -> Iterator[Path]:
    """This checkout in another folder, with a venv of its own that borrows the installed packages."""
    path = Path(tempfile.mkdtemp(prefix="sg-copy-")) / "tree"
    shutil.copytree(
        ROOT,
        path,
        ignore=shutil.ignore_patterns(".git", ".venv", "var", "__pycache__", ".*_cache", ".hypothesis"),
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path / ".venv"], check=True)
    site = next((path / ".venv" / "lib").glob("python*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    venv = runpy.run_path(str(path / "tools" / "venv.py"))
    Path(venv["stamp_of"]("requirements.lock")).write_text(venv["digest"]("requirements.lock"))
    yield path
    shutil.rmtree(path.parent, ignore_errors=True)


@pytest.fixture(scope="module")
def stack(copy: Path) -> Iterator[Stack]:
    data_dir = Path(tempfile.mkdtemp(prefix="sg-up-"))
    stack = Stack(data_dir, SLUICEGATE_DURABILITY="always")  # its server is killed
    yield stack
    stack.kill()
    shutil.rmtree(data_dir, ignore_errors=True)


def start(stack: Stack, copy: Path) -> None:
    stack.start(["make", "up"], directory=copy)


def left_behind(stack: Stack) -> list[str]:
    """Processes that carry the installation's mark or name its directory."""
    mine = {os.getpid(), os.getppid()}
    found = [str(pid) for pid in stack.pids()]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(stack.data_dir).encode() in words and int(entry.name) not in mine:
            found.append(words.decode(errors="replace"))
    return found


def run_up(copy: Path, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [copy / ".venv" / "bin" / "python", "manage.py", "up"],
        cwd=copy,
        env=clean_environment(settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_interrupt_to_make_alone_ends_all_and_what_was_accepted_is_there_at_the_next_start(
    stack: Stack, copy: Path
) -> None:
    start(stack, copy)
    for word in ("look at", "log in", "submit", "data", "stop"):
        assert word in stack.text
    done = stack.submit("drill.echo", "hello")
    later = stack.submit("drill.echo", "later", countdown_s=LATER_S)
    wait_until(lambda: stack.job(done)["status"] == "succeeded", within_s=30, what="the first job to end")

    assert stack.process is not None
    assert Path(f"/proc/{stack.process.pid}/comm").read_text().strip() == "make"
    stack.stop()
    assert left_behind(stack) == []

    start(stack, copy)
    assert stack.job(later)["status"] == "pending"
    assert stack.job(done)["status"] == "succeeded"


def test_a_second_start_on_the_same_directory_is_told_so(stack: Stack, copy: Path) -> None:
    answer = run_up(copy, {**stack.settings, "SLUICEGATE_PORT": str(ports.find_free())})
    assert answer.returncode == 1
    assert "already running" in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


def test_a_taken_port_is_told_before_anything_starts(stack: Stack, copy: Path, tmp_path: Path) -> None:
    answer = run_up(copy, {**stack.settings, "SLUICEGATE_DATA_DIR": str(tmp_path)})
    assert answer.returncode == 1
    assert str(stack.port) in answer.stderr
    assert "SLUICEGATE_PORT" in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
    assert find_marked(tmp_path) == []
    assert not (tmp_path / "redis").exists()


def test_a_wrong_setting_is_told_with_its_fix(copy: Path, tmp_path: Path) -> None:
    answer = run_up(copy, {"SLUICEGATE_DATA_DIR": str(tmp_path), "SLUICEGATE_PORT": "http"})
    assert answer.returncode == 1
    assert "SLUICEGATE_PORT" in answer.stderr
    assert "give one from 1 to 65535" in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["web", "workers", "monitor", "redis"])
def test_a_child_that_is_killed_is_started_again(stack: Stack, name: str) -> None:
    later = stack.submit("drill.echo", "later", countdown_s=LATER_S)
    old = stack.child_pid(name)
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: stack.child_pid(name) != old, within_s=20, what=f"{name} to be started again")
    wait_until(lambda: stack.job(later)["status"] == "pending", within_s=60, what="the gate to answer again")
    job = wait_until(lambda: stack.submit("drill.echo", "again"), within_s=30, what="a job to be accepted")
    wait_until(lambda: stack.job(job)["status"] == "succeeded", within_s=60, what="a job to be done again")
    assert f"{name} ended (SIGKILL)" in stack.text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_killed_supervisor_takes_all_with_it_and_the_next_start_works(stack: Stack, copy: Path) -> None:
    later = stack.submit("drill.echo", "later", countdown_s=LATER_S)
    running = stack.submit("drill.sleep", 3)
    wait_until(lambda: stack.job(running)["status"] == "running", within_s=30, what="the job to start")
    supervisor = int((stack.data_dir / "up.lock").read_text())
    os.kill(supervisor, signal.SIGKILL)
    assert stack.process is not None
    stack.process.wait(10)
    wait_until(lambda: left_behind(stack) == [], within_s=30, what="every process to end")
    start(stack, copy)
    assert stack.job(later)["status"] == "pending"
    wait_until(lambda: stack.job(running)["status"] == "succeeded", within_s=60, what="the job to run again")


def test_a_term_to_the_supervisor_ends_all(stack: Stack) -> None:
    os.kill(int((stack.data_dir / "up.lock").read_text()), signal.SIGTERM)
    assert stack.process is not None
    assert stack.process.wait(40) == 0
    stack.process = None
    assert left_behind(stack) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{stack.base_url}/healthz", trust_env=False)


def test_a_directory_too_deep_for_a_socket_still_works(copy: Path, short_dir: Path) -> None:
    deep = Stack(short_dir / ("d" * 60) / ("with space " + "e" * 40), SLUICEGATE_WORKERS="1")
    try:
        deep.start([str(copy / ".venv" / "bin" / "python"), "manage.py", "up"], directory=copy)
        job = deep.submit("drill.echo", "deep")
        wait_until(lambda: deep.job(job)["status"] == "succeeded", within_s=30, what="the job to end")
        assert deep.stop() == 0
        assert left_behind(deep) == []
    finally:
        deep.kill()


@pytest.mark.soak
def test_what_a_demonstration_left_is_done_by_a_start_without_one(short_dir: Path, copy: Path) -> None:
    command = [str(copy / ".venv" / "bin" / "python"), "manage.py", "up"]
    stack = Stack(short_dir / "d", SLUICEGATE_DEMO="1", SLUICEGATE_WORKERS="1")
    try:
        stack.start(command, directory=copy)
        sink = (stack.data_dir / "run" / "sink_port").read_text()
        left = stack.submit(
            "webhooks.deliver",
            f"http://127.0.0.1:{sink}/hooks/messages",
            {},
            queue="critical",
            countdown_s=12,
        )
        assert stack.stop() == 0
        stack.settings["SLUICEGATE_DEMO"] = "0"
        stack.start(command, directory=copy)
        assert "sink: still there" in stack.text
        assert not find_named(stack, "flood")
        wait_until(lambda: stack.job(left)["status"] == "succeeded", within_s=60, what="the job to be done")
        for queue in ("urgent", "normal", "bulk"):
            stack.manage("mode", "set", "draining", "--queue", queue, "--reason", "test")
        wait_until(lambda: is_empty(stack), within_s=60, what="what else was left to be done")
        assert stack.stop() == 0
        stack.start(command, directory=copy)
        assert not (stack.data_dir / "run" / "sink_port").exists()
        assert not find_named(stack, "workers.tasks.sink")
    finally:
        stack.end()


def find_named(stack: Stack, word: str) -> list[int]:
    """Processes of the installation whose command line has a word."""
    return [pid for pid in stack.pids() if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]


def is_empty(stack: Stack) -> bool:
    rows = stack.get("/api/v1/queues")["queues"]
    return not any(row["depth"] + row["delayed"] + row["in_flight"] for row in rows)

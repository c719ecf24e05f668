"""Does the monitor as a process lead alone, hand over, and stop when told?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.store import Store

ROOT = Path(__file__).parents[2]


class Monitors:
    def __init__(self, directory: Path, redis_url: str) -> None:
        self.store = Store.from_url(redis_url)
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environ = {
            **os.environ,
            "SLUICEGATE_DATA_DIR": str(directory),
            "SLUICEGATE_REDIS_URL": redis_url,
            "SLUICEGATE_DATABASE_URL": "",
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }

    def manage(self, *words: str) -> list[str]:
        return [sys.executable, str(ROOT / "manage.py"), *words]

    def start(self) -> subprocess.Popen[bytes]:
        with open(self.directory / f"monitor-{len(self.processes)}.log", "wb") as log:
            process = subprocess.Popen(self.manage("monitor"), env=self.environ, stderr=log, stdout=log)
        self.processes.append(process)
        return process

    def frame(self) -> dict[str, Any] | None:
        text = self.store.read_frame()
        return json.loads(text) if text else None

    def seq(self) -> int:
        frame = self.frame()
        return int(frame["seq"]) if frame else 0

    def log_of(self, number: int) -> str:
        return (self.directory / f"monitor-{number}.log").read_text()

    def wait_until(self, holds: Callable[[], bool], within_s: float) -> None:
        give_up_at = time.monotonic() + within_s
        while not holds():
            said = "\n".join(self.log_of(number) for number in range(len(self.processes)))
            assert time.monotonic() < give_up_at, said
            time.sleep(0.05)


@pytest.fixture
def monitors(tmp_path: Path, redis_url: str) -> Iterator[Monitors]:
    found = Monitors(tmp_path, redis_url)
    subprocess.run(found.manage("migrate", "-v", "0"), env=found.environ, check=True, capture_output=True)
    yield found
    for process in found.processes:
        if process.poll() is None:
            process.kill()
        process.wait()
    found.store.client.close()


@pytest.mark.slow
def test_one_leads_another_takes_over_and_both_stop_at_once(monitors: Monitors) -> None:
    first = monitors.start()
    monitors.wait_until(lambda: bool((monitors.frame() or {}).get("queues")), 30)
    second = monitors.start()
    monitors.wait_until(lambda: "monitor runs" in monitors.log_of(1), 30)
    assert " leads" not in monitors.log_of(1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    last = monitors.seq()
    monitors.wait_until(lambda: monitors.seq() > last, 15)
    assert " leads" in monitors.log_of(1)
    second.send_signal(signal.SIGTERM)
    assert second.wait(10) == 0


@pytest.mark.slow
def test_it_waits_for_a_redis_that_is_not_there_yet(monitors: Monitors, tmp_path: Path) -> None:
    monitors.environ["SLUICEGATE_REDIS_URL"] = f"unix://{tmp_path}/nothing.sock?db=0"
    process = monitors.start()
    monitors.wait_until(lambda: "monitor runs" in monitors.log_of(0), 30)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0

"""How does a test get all of it, as `make up` starts it?"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from workers.supervise import ports
from workers.supervise.processes import end_all, find_marked

from .waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "a pass phrase for tests"
API_KEY = "sg_default_0123456789abcdefghijkl"


def clean_environment(added: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without any setting of Sluicegate, pytest or make, and with ``added``."""
    dropped = ("SLUICEGATE_", "DJANGO_", "PYTEST_", "MAKE", "MFLAGS")
    return {**{k: v for k, v in os.environ.items() if not k.startswith(dropped)}, **added}


class Stack:
    """One installation in ``data_dir``, run by `manage.py up`."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self.port = ports.find_free()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.api_key, self.password = API_KEY, PASSWORD
        self.settings = {
            "SLUICEGATE_DATA_DIR": str(data_dir),
            "SLUICEGATE_PORT": str(self.port),
            "SLUICEGATE_DEMO": "0",
            "SLUICEGATE_DRILLS": "1",
            "SLUICEGATE_OPERATOR_PASSWORD": PASSWORD,
            "SLUICEGATE_API_KEY": API_KEY,
            **settings,
        }
        self.output = data_dir / "up.out"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def redis_url(self) -> str:
        return self.settings.get("SLUICEGATE_REDIS_URL") or f"unix://{self.data_dir}/redis.sock?db=0"

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def manage(self, *words: str) -> str:
        """What `manage.py` says to these words, run for this installation."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=clean_environment({**self.settings, "SLUICEGATE_REDIS_URL": self.redis_url}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start(
        self, command: list[str] | None = None, *, within_s: float = 120.0, directory: Path = ROOT
    ) -> None:
        """Starts it and waits until it can accept and its workers are live."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                command or [sys.executable, "manage.py", "up"],
                cwd=directory,
                env=clean_environment(self.settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_ask_to_stop_with_parent if sys.platform == "linux" else None,
            )
        wait_until(self._is_up, within_s=within_s, what=f"all of it to be up; see {self.output}")

    def _is_up(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            # Not an Exception: nothing is worth waiting for any more.
            raise SystemExit(f"it ended at its start with {self.process.returncode}: {self.text[-2000:]}")
        if httpx.get(f"{self.base_url}/readyz", timeout=2, trust_env=False).status_code != 200:
            return False
        frame = self.get("/api/v1/queues")
        return bool(frame.get("workers"))

    def client(self, api_key: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {api_key or self.api_key}"}
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=10, trust_env=False)

    def get(self, path: str) -> Any:
        with self.client() as client:
            return client.get(path).raise_for_status().json()

    def submit(self, task: str, *args: Any, **fields: Any) -> str:
        """Submits a job at the HTTP door and gives its id."""
        with self.client() as client:
            answer = client.post("/api/v1/jobs", json={"task": task, "args": list(args), **fields})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["operation_id"])

    def job(self, operation_id: str) -> dict[str, Any]:
        document: dict[str, Any] = self.get(f"/api/v1/jobs/{operation_id}")
        return document

    def pids(self) -> list[int]:
        """Every process of this installation but the supervisor."""
        return find_marked(self.data_dir)

    def child_pid(self, name: str) -> int:
        return int(json.loads((self.data_dir / "run" / "children.json").read_text())[name][0])

    def stop(self, *, within_s: float = 40.0) -> int:
        """Ctrl-C to the supervisor alone; its exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self.process = None

    def end(self) -> None:
        """Stopped, or killed where it does not stop."""
        try:
            self.stop()
        finally:
            self.kill()

    def kill(self) -> None:
        """kill -9 of everything, for the end of a test that failed."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()
            self.process = None
        end_all(self.pids(), patience_s=0.0)


def _ask_to_stop_with_parent() -> None:
    """A test run that is killed leaves no installation behind."""
    # A run started in the background by a script has SIGINT ignored, and its children would inherit that;
    # a person at a terminal has not.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)

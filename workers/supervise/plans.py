"""Which processes make an installation, and with which words are they started?"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .child import ChildPlan
from .leftovers import SERVER
from .processes import MARK

#: Seconds that workers may take to finish what they run, and then to put it back.
WORKERS_FINISH_S: Final = 10.0
WORKERS_LET_GO_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Installation:
    """What the settings say, as far as the processes need it."""

    root: Path
    data_dir: Path
    port: int
    redis_url: str
    concurrency: int
    queues: Sequence[str]
    sink_port: int | None

    def environment(self) -> Mapping[str, str]:
        added = {
            MARK: str(self.data_dir),
            "SLUICEGATE_DATA_DIR": str(self.data_dir),
            "SLUICEGATE_REDIS_URL": self.redis_url,
            "SLUICEGATE_PORT": str(self.port),
            "SLUICEGATE_WORKERS": str(self.concurrency),
            "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "config.settings"),
            "PYTHONUNBUFFERED": "1",
        }
        if self.sink_port is not None:
            added["SLUICEGATE_SINK_URL"] = f"http://127.0.0.1:{self.sink_port}"
        # What tells make's own children how to behave means nothing here.
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
        }
        return {**kept, **added}


def plan_server(binary: Path, configuration: Path, data_dir: Path) -> ChildPlan:
    return ChildPlan(
        SERVER,
        [str(binary), str(configuration)],
        {MARK: str(data_dir), "PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
        configuration.parent,
        # The server writes out its append-only file on SIGTERM as on SHUTDOWN.
        stop_steps=((signal.SIGTERM, 10.0),),
        shows_warnings=False,
    )


def plan_web(installation: Installation) -> ChildPlan:
    words = [
        "-m",
        "uvicorn",
        "config.asgi:application",
        "--host",
        "127.0.0.1",
        "--port",
        str(installation.port),
        "--no-proxy-headers",  # whose word is believed says SLUICEGATE_TRUSTED_PROXIES
        "--ws-max-size",
        "1024",  # nothing is asked over the stream; uvicorn would hold 16 MB of each reader
    ]
    words += [
        "--log-level",
        "warning",
        "--no-access-log",
        "--timeout-graceful-shutdown",
        "2",
        "--lifespan",
        "off",
    ]
    return _python(installation, "web", words)


def plan_workers(installation: Installation) -> ChildPlan:
    words = [
        "-m",
        "celery",
        "-A",
        "config",
        "worker",
        "--pool",
        "prefork",
        "-n",
        f"up-{installation.port}@%h",
    ]
    words += ["-c", str(installation.concurrency), "-Q", ",".join(installation.queues)]
    words += ["--prefetch-multiplier", "1", "-O", "fair", "--loglevel", "WARNING", "--without-mingle"]
    return _python(
        installation,
        "workers",
        words,
        # Warm: finish what runs. Then cold: put back what does not end.
        stop_steps=((signal.SIGTERM, WORKERS_FINISH_S), (signal.SIGQUIT, WORKERS_LET_GO_S)),
        # An orphan has no server to finish against: the lease gives its jobs back.
        on_orphaned=signal.SIGKILL,
    )


def plan_monitor(installation: Installation) -> ChildPlan:
    return _python(installation, "monitor", ["manage.py", "monitor"])


def plan_sink(installation: Installation) -> ChildPlan:
    words = ["-m", "workers.tasks.sink", "--port", str(installation.sink_port)]
    return _python(installation, "sink", words)


def plan_workload(installation: Installation) -> ChildPlan:
    words = ["manage.py", "flood", "--demo", "--slots", str(installation.concurrency)]
    return _python(installation, "workload", words, stop_steps=((signal.SIGTERM, 3.0),))


def _python(
    installation: Installation,
    name: str,
    words: Sequence[str],
    *,
    stop_steps: Sequence[tuple[int, float]] = ((signal.SIGTERM, 5.0),),
    on_orphaned: int = signal.SIGTERM,
) -> ChildPlan:
    return ChildPlan(
        name,
        [sys.executable, *words],
        installation.environment(),
        installation.root,
        stop_steps=stop_steps,
        on_orphaned=on_orphaned,
    )

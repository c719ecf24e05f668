"""How does a test get a Redis of its own, which it may stop, kill and bring back?"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

from workers.supervise import server

from .waiting import wait_until

#: The server's process never outlives the tests, however they end.
_PR_SET_PDEATHSIG = 1


class RedisServer:
    """The server that `make up` embeds, with the same configuration, on a UNIX socket in ``directory``."""

    def __init__(
        self, directory: Path, *, durability: str = "everysec", max_memory_bytes: int = 256 << 20
    ) -> None:
        self.directory = directory
        self.socket_path = directory / "r.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self._configuration = server.write_configuration(
            directory,
            socket_path=self.socket_path,
            pid_file=directory / "r.pid",
            durability=durability,
            max_memory_bytes=max_memory_bytes,
        )

    def url(self, database: int = 0) -> str:
        return f"unix://{self.socket_path}?db={database}"

    def start(self) -> None:
        log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            [str(server.find_binary()), str(self._configuration)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        log.close()
        wait_until(lambda: server.answers(self.socket_path), within_s=20, what="the Redis of the tests")

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(10)
        self.process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        os._exit(1)

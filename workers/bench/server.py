"""How does a bench get a Redis of its own, the same for both sides, as the product configures one?"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..supervise.server import ServerMissing, answers, write_configuration

START_S = 5.0
MAX_MEMORY_BYTES = 1024 * 1024 * 1024


def end(process: subprocess.Popen[bytes], *, patience_s: float) -> None:
    """Asks it to stop, and kills it where it has not within that."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def run_server(binary: Path, directory: Path) -> Iterator[Path]:
    """The socket of a fresh server in ``directory``, which goes with it."""
    path = directory / "s"
    configuration = write_configuration(
        directory,
        socket_path=path,
        pid_file=directory / "pid",
        durability="everysec",
        max_memory_bytes=MAX_MEMORY_BYTES,
    )
    process = subprocess.Popen(
        [str(binary), str(configuration)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        give_up_at = time.monotonic() + START_S
        while not answers(path):
            if process.poll() is not None or time.monotonic() > give_up_at:
                raise ServerMissing(f"{binary} did not start within {START_S:.0f} s")
            time.sleep(0.01)
        yield path
    finally:
        end(process, patience_s=5)
        shutil.rmtree(directory, ignore_errors=True)

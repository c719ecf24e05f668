"""How does a test get a Redis of its own, which it may stop, freeze, kill and bring back?"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import redis

from workers.supervise import ports, server

from .processes import die_with_parent
from .waiting import wait_until


class RedisServer:
    """The server that `make up` embeds, with the same configuration, on a UNIX socket in ``directory``.

    ``settings`` are added to the configuration; ``with_port`` gives it a port on loopback too (replicas and
    sentinels speak over nothing else); ``under`` are words that the server is started under (strace).
    """

    def __init__(
        self,
        directory: Path,
        *,
        durability: str = "everysec",
        max_memory_bytes: int = 256 << 20,
        settings: Mapping[str, str] | None = None,
        with_port: bool = False,
        binary: Path | None = None,
        under: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.socket_path = directory / "r.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self.port = ports.find_free() if with_port else 0
        self._binary = binary or server.find_binary()
        self._under = list(under)
        self.configuration = server.write_configuration(
            directory,
            socket_path=self.socket_path,
            pid_file=directory / "r.pid",
            durability=durability,
            max_memory_bytes=max_memory_bytes,
        )
        added = {"bind": "127.0.0.1", "port": str(self.port), **(settings or {})}
        # The last line of a name is the one in force.
        with self.configuration.open("a") as file:
            file.writelines(f"{name} {value}\n" for name, value in added.items())

    def url(self, database: int = 0) -> str:
        return f"unix://{self.socket_path}?db={database}"

    def start(self, *, until_it_answers: bool = True) -> None:
        log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            [*self._under, str(self._binary), str(self.configuration)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=as_server,
        )
        log.close()
        if until_it_answers:
            wait_until(self.answers, within_s=20, what=f"the Redis of the tests; see {self.directory}/log")

    def answers(self) -> bool:
        """An error is an answer too, but for that of a server that still loads its file."""
        client = redis.Redis(unix_socket_path=str(self.socket_path), socket_timeout=1)
        try:
            return bool(client.ping())
        except redis.exceptions.BusyLoadingError:
            return False
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError) as exc:
            return isinstance(exc, redis.exceptions.AuthenticationError)
        finally:
            client.close()

    def freeze(self) -> None:
        """It is there and answers nobody."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is None or self.process.poll() is not None:
            self.process = None
            return
        pid = self.process.pid
        if self._under:  # a tracer that is killed sets its server free
            pid = int((self.directory / "r.pid").read_text())
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, number)
        self.process.wait(10)
        self.process = None

    def kill(self) -> None:
        """With ``everysec`` what it answered while an fsync was on may be lost: Redis puts that write off."""
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()


def as_server() -> None:
    """For ``preexec_fn``: goes with the tests; a file at its limit is an error to it, not its end."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    die_with_parent()

"""How does a test get a Redis that Sentinel watches: a primary, a replica, and one who decides?"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import redis

from workers.supervise import ports, server

from .servers import RedisServer, as_server
from .waiting import wait_until

MASTER = "gate"
#: A primary that is silent for so long is given up.
DOWN_AFTER_MS = 1000


class Watched:
    """Two servers and a sentinel, on loopback ports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        quick = {"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}
        self.first = RedisServer(directory / "a", with_port=True, settings=quick)
        self.first.start()
        follows = {**quick, "replicaof": f"127.0.0.1 {self.first.port}"}
        self.second = RedisServer(directory / "b", with_port=True, settings=follows)
        self.second.start()
        self.port, dead = ports.find_free(), ports.find_free()
        #: One of the sentinels named is never there: the other must be asked.
        self.url = f"sluicegate+sentinel://127.0.0.1:{dead},127.0.0.1:{self.port}/{MASTER}?db=0"
        self.sentinel = self._start_sentinel()
        wait_until(lambda: self._knows_replica(), within_s=30, what="the sentinel to know the replica")

    def fail_over(self) -> None:
        """The primary dies; when it is back, it follows the other."""
        self.first.kill()

    def address(self) -> tuple[str, int]:
        with redis.Redis(port=self.port, socket_timeout=2) as client:
            host, port = client.execute_command("SENTINEL", "get-master-addr-by-name", MASTER)
        return host.decode(), int(port)

    def stop(self) -> None:
        self.sentinel.send_signal(signal.SIGKILL)
        self.sentinel.wait(10)
        self.first.kill()
        self.second.kill()

    def _start_sentinel(self) -> subprocess.Popen[bytes]:
        home = self.directory / "s"
        home.mkdir(parents=True)
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {home}",
            "daemonize no",
            f"sentinel monitor {MASTER} 127.0.0.1 {self.first.port} 1",
            f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {MASTER} 3000",
        ]
        (home / "s.conf").write_text("\n".join(lines) + "\n")
        with (home / "log").open("ab") as log:
            process = subprocess.Popen(
                [str(server.find_binary()), str(home / "s.conf"), "--sentinel"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=as_server,
            )
        return process

    def _knows_replica(self) -> bool:
        with redis.Redis(port=self.port, socket_timeout=2) as client:
            rows = client.execute_command("SENTINEL", "replicas", MASTER)
        with redis.Redis(unix_socket_path=str(self.second.socket_path), socket_timeout=2) as replica:
            up = replica.info("replication").get("master_link_status") == "up"
        return bool(rows) and up and self.address()[1] == self.first.port

"""How does a test get a PostgreSQL of its own, which it may stop, freeze and bring back?"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from workers.supervise import ports

from .servers import as_server
from .waiting import wait_until

#: Debian keeps the server's programs off PATH.
PLACES = "/usr/lib/postgresql/*/bin"
#: PostgreSQL refuses to run as root; one of these runs it then.
USERS = ("postgres", "nobody")


def find_programs() -> Path | None:
    """The directory of `initdb` and `postgres`, the newest where there are several."""
    found = shutil.which("postgres")
    if found and shutil.which("initdb"):
        return Path(found).resolve().parent
    places = [path for path in Path("/").glob(PLACES.lstrip("/")) if (path / "postgres").exists()]
    return max(places, key=lambda path: float(path.parent.name), default=None)


class PostgresServer:
    """One server with a database called ``sluicegate``, on a UNIX socket and nothing else."""

    def __init__(self) -> None:
        programs = find_programs()
        if programs is None:
            raise FileNotFoundError("no PostgreSQL on this machine")
        self._programs = programs
        self._user = _unprivileged_user()
        self.directory = Path(tempfile.mkdtemp(prefix="sg-pg-"))
        self.port = ports.find_free()
        self.process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self.directory, account.pw_uid, account.pw_gid)
        words = ["-U", "sluicegate", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        # Small log segments: what a test limits the size of is tables.
        self._call("initdb", "-D", str(self._data), *words, "--wal-segsize=1")

    @property
    def url(self) -> str:
        return f"postgresql://sluicegate@/sluicegate?host={self.directory}&port={self.port}"

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        """Starts it; after the first time what it held is there again."""
        log = (self.directory / "log").open("ab")
        # What a test proves of a database that goes away does not lean on its disk.
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.directory), "fsync": "off"}
        settings |= {"port": str(self.port), "synchronous_commit": "off", "max_connections": "60"}
        self.process = subprocess.Popen(
            [str(self._programs / "postgres"), "-D", str(self._data)]
            + [word for name, value in settings.items() for word in ("-c", f"{name}={value}")],
            user=self._user,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=as_server,
        )
        log.close()
        wait_until(self._answers, within_s=30, what=f"PostgreSQL to answer; see {self.directory}/log")
        self._sql("postgres", "SELECT 1 FROM pg_database WHERE datname = 'sluicegate'") or self._sql(
            "postgres", "CREATE DATABASE sluicegate"
        )

    def stop(self) -> None:
        """Ends it at once, sessions included (SIGINT is the fast shutdown)."""
        if self.process is not None:
            self.resume()
            self.process.send_signal(signal.SIGINT)
            self.process.wait(20)
            self.process = None

    def freeze(self) -> None:
        """It is there and answers nobody."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _signal_all(self, number: int) -> None:
        """To the server and its sessions, which are processes of their own."""
        if self.process is not None:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            for pid in (self.process.pid, *map(int, children)):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass  # a session that has just ended

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise SystemExit(f"PostgreSQL ended at its start: {(self.directory / 'log').read_text()[-2000:]}")
        return self._sql("postgres", "SELECT 1") == "1"

    def _sql(self, database: str, statement: str) -> str:
        return self._call("psql", "-h", str(self.directory), "-p", str(self.port), "-U", "sluicegate", "-d",
                          database, "-tAc", statement)  # fmt: skip

    def _call(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [str(self._programs / program), *words],
            user=self._user,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr[-1000:]}")
        return done.stdout.strip()


def _unprivileged_user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {account.pw_name for account in pwd.getpwall()}
    return next(name for name in USERS if name in known)

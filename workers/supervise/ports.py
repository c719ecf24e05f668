"""Is a port free, and which one is?"""

from __future__ import annotations

import socket
from pathlib import Path


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server itself will: a port in TIME_WAIT is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def find_free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class KeptPort:
    """A port that is the same at each start, as long as nobody else has taken it meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def port(self) -> int | None:
        """The one that was kept; None where there is none."""
        try:
            return int(self._path.read_text())
        except (OSError, ValueError):
            return None

    def keep(self) -> int:
        kept = self.port
        port = kept if kept is not None and is_free(kept) else find_free()
        self._path.write_text(str(port))
        return port

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def is_alive(port: int) -> bool:
    """Whether the web process answers /healthz."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as line:
            line.settimeout(2.0)
            line.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            return b" 200 " in line.recv(64)
    except OSError:
        return False

"""How is one process started, so that it is never orphaned, and how is it stopped?"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .logs import ChildLog

_PR_SET_PDEATHSIG: Final = 1
_RESTART_AFTER_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
#: A child that ran so long has recovered: its next death is a first one again.
_RECOVERED_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """What to run and how to stop it.

    ``stop_steps``: signals with the seconds to wait after each; what still runs then is killed with
    its whole group. ``on_orphaned``: what the system sends it if the supervisor is killed.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    stop_steps: Sequence[tuple[int, float]] = ((signal.SIGTERM, 5.0),)
    on_orphaned: int = signal.SIGTERM
    shows_warnings: bool = True


@dataclass(slots=True)
class Child:
    """One plan and the process that runs it at the moment, if one does."""

    plan: ChildPlan
    log: ChildLog
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    deaths: int = 0
    starts_again_at: float | None = None
    _step_ends_at: float = field(default=0.0)
    _steps_done: int = field(default=0)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> subprocess.Popen[bytes]:
        self.starts_again_at = None
        self._steps_done = 0
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            self.plan.command,
            cwd=self.plan.directory,
            env=dict(self.plan.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Its own session: a Ctrl-C at the terminal reaches only the supervisor, which stops all in order.
            start_new_session=True,
            # Safe: the supervisor has one thread.
            preexec_fn=_die_with_parent(self.plan.on_orphaned),
        )
        return self.process

    def note_death(self) -> float:
        """Ends what the dead process left of its group; seconds until the next start."""
        if time.monotonic() - self.started_at >= _RECOVERED_S:
            self.deaths = 0
        wait_s = _RESTART_AFTER_S[min(self.deaths, len(_RESTART_AFTER_S) - 1)]
        self.deaths += 1
        self.kill()
        self.process = None
        self.starts_again_at = time.monotonic() + wait_s
        return wait_s

    def push_stop(self, *, at_once: bool = False) -> bool:
        """One step of stopping, to be called again and again; true when the process is gone."""
        if self.process is None:
            return True
        if self.process.poll() is not None:
            self.kill()
            self.process = None
            return True
        now = time.monotonic()
        if at_once and self._steps_done <= len(self.plan.stop_steps):
            self.kill()
        elif now >= self._step_ends_at or self._steps_done == 0:
            if self._steps_done < len(self.plan.stop_steps):
                number, patience_s = self.plan.stop_steps[self._steps_done]
                self._send(number)
                self._step_ends_at = now + patience_s
            else:
                self.kill()
            self._steps_done += 1
        return False

    def kill(self) -> None:
        """The whole group: a pool's processes must not outlive their parent."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # macOS says PermissionError of a group of zombies

    def _send(self, number: int) -> None:
        assert self.process is not None
        try:
            self.process.send_signal(number)
        except ProcessLookupError:
            pass


def _die_with_parent(number: int) -> Callable[[], None] | None:
    """Linux only: elsewhere the next start finds what is left."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it died between the fork and the line above
            os._exit(1)

    return arrange

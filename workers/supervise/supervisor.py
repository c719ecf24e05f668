"""What runs when, what happens when it dies, and in which order does all of it end?

One thread: a child asks the system to be told of the death of the thread that started it.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .child import Child, ChildPlan
from .greeting import shown
from .leftovers import SERVER, Records
from .logs import ChildLog
from .parent import ParentWatch
from .processes import end_all, find_marked

TICK_S: Final = 0.1
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopAsked(Exception):
    """Somebody wants everything to end."""


class ChildFailed(RuntimeError):
    """A child ended before it was ever ready."""


class Supervisor:
    def __init__(self, data_dir: Path, *, say: Callable[[str], None]) -> None:
        self.data_dir = data_dir
        self.say = say
        self.records = Records(data_dir)
        self.children: list[Child] = []
        self._parent = ParentWatch()
        self._selector = selectors.DefaultSelector()
        self._stops_asked = 0
        self._parent_stopped = False
        # A signal wakes the loop by a byte; what it means is counted by the handler.
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, None)

    def listen_for_signals(self) -> None:
        for number in _STOP_SIGNALS:
            signal.signal(number, self._note_signal)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)

    def start(self, plan: ChildPlan) -> Child:
        """Starts a child; from now on it is kept running."""
        log = ChildLog(
            plan.name,
            self.data_dir / "log" / f"{plan.name}.log",
            say=self.say,
            shows_warnings=plan.shows_warnings,
        )
        child = Child(plan, log)
        self.children.append(child)
        self._launch(child)
        return child

    def wait_until(self, is_ready: Callable[[], bool], *, child: Child, within_s: float, what: str) -> None:
        """Serves the children until ``is_ready``.

        Raises:
            StopAsked: a signal came first.
            ChildFailed: the child ended, or was not ready in time.
        """
        give_up_at = time.monotonic() + within_s
        while not is_ready():
            self._pump()
            if self._is_stop_asked():
                raise StopAsked
            if not child.is_running:
                self._pump()
                last = f": {child.log.last_line}" if child.log.last_line else ""
                raise ChildFailed(f"{what} ended at its start{last} (see {child.log.path})")
            if time.monotonic() > give_up_at:
                raise ChildFailed(f"{what} was not ready within {within_s:.0f} s (see {child.log.path})")

    def run(self) -> None:
        """Keeps every child running until somebody wants an end."""
        while not self._is_stop_asked():
            self._pump()
            self._raise_the_dead()

    def stop(self) -> None:
        """Ends the children, the last started first; a second signal hurries all but the server."""
        # A Ctrl-C at the terminal reaches make as well as us: what it did and our own signal are one wish.
        enough = max(self._stops_asked, 1) + self._parent_stopped
        hurried = False
        for child in reversed(self.children):
            if child.process is None:
                continue
            self.say(f"stopping {child.plan.name}")
            while not child.push_stop(at_once=hurried and child.plan.name != SERVER):
                self._pump()
                if not hurried and self._stops_asked > enough:
                    hurried = True
                    self.say("hurrying")
            self._drain(child)
            self.records.forget(child.plan.name)
        for child in self.children:
            child.log.close()
        end_all(find_marked(self.data_dir), patience_s=0.5)

    def _launch(self, child: Child) -> None:
        process = child.start()
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, child)
        self.records.note(child.plan.name, process.pid)

    def _raise_the_dead(self) -> None:
        now = time.monotonic()
        for child in self.children:
            if child.process is not None:
                code = child.process.poll()
                if code is None:
                    continue
                self._drain(child)
                wait_s = child.note_death()
                self.records.forget(child.plan.name)
                self.say(
                    f"{child.plan.name} ended ({_describe(code)}); "
                    f"it starts again in {wait_s:g} s; see {shown(child.log.path)}"
                )
            elif child.starts_again_at is not None and now >= child.starts_again_at:
                self._launch(child)

    def _pump(self) -> None:
        """Takes what the children say, for at most a tick."""
        for key, _ in self._selector.select(TICK_S):
            if key.data is None:
                self._empty_wake_pipe()
                continue
            content = _read(key.fd)
            if content is None:
                continue
            if content:
                key.data.log.feed(content)
            else:
                self._close_output(key.fileobj)

    def _drain(self, child: Child) -> None:
        """The last words of a process that ended; a grandchild that holds the pipe open is not waited for."""
        for key in list(self._selector.get_map().values()):
            if key.data is not child:
                continue
            while content := _read(key.fd):
                child.log.feed(content)
            self._close_output(key.fileobj)

    def _close_output(self, output: Any) -> None:
        self._selector.unregister(output)
        output.close()

    def _empty_wake_pipe(self) -> None:
        while _read(self._wake_reader):
            pass

    def _note_signal(self, *_: Any) -> None:
        self._stops_asked += 1

    def _is_stop_asked(self) -> bool:
        if not self._stops_asked and not self._parent_stopped and self._parent.wants_stop():
            self._parent_stopped = True
            self._stops_asked += 1
        return self._stops_asked > 0


def _read(handle: int) -> bytes | None:
    """What is there; b"" at the end; None when there is nothing for now."""
    try:
        return os.read(handle, 65536)
    except BlockingIOError:
        return None


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"

"""Start everything here, keep it running, and stop all of it on Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections

from ...actions.change_policy import newest_versions
from ...actions.gate import open_gate
from ...supervise import plans, ports, server
from ...supervise.claim import AlreadyClaimed, Claim
from ...supervise.greeting import greet, shown
from ...supervise.supervisor import ChildFailed, StopAsked, Supervisor
from ..preparation import Prepared, prepare_database, prepare_gate

SHIPPED_QUEUES: Final = ("critical", "urgent", "normal", "bulk")
#: Loading a large append-only file takes its time.
SERVER_READY_S: Final = 120.0
WEB_READY_S: Final = 60.0


class Command(BaseCommand):
    help = "Start Redis, web, workers, monitor and the demonstration here; Ctrl-C stops all of it."
    requires_system_checks: ClassVar[list[str]] = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.started_at = time.monotonic()
        self.data_dir = Path(settings.SLUICEGATE_DATA_DIR)
        logging.getLogger("workers").setLevel(logging.WARNING)  # the steps are told in words of our own
        try:
            claim = Claim(self.data_dir)
        except AlreadyClaimed as fault:
            raise CommandError(str(fault)) from None
        supervisor = Supervisor(self.data_dir, say=self._say)
        try:
            found = supervisor.records.end_leftovers()
            if found:
                self._say(f"ended what an earlier run left: {', '.join(found)}")
            self._check_port()
            supervisor.listen_for_signals()
            self._run(supervisor)
        finally:
            claim.release()

    def _run(self, supervisor: Supervisor) -> None:
        fault: Exception | None = None
        try:
            self._start(supervisor)
            supervisor.run()
        except StopAsked:
            pass
        except (ChildFailed, server.ServerMissing, DatabaseError) as caught:
            fault = caught
        finally:
            connections.close_all()
            supervisor.stop()
        if fault is not None:
            raise CommandError(str(fault)) from None
        self._say(f"stopped; what was accepted is kept in {shown(self.data_dir)}")

    def _start(self, supervisor: Supervisor) -> None:
        if settings.SLUICEGATE_EMBEDDED:
            self._start_server(supervisor)
        else:
            self._check_server()
        self._say("database: bringing its tables up to date")
        prepared = self._prepare()
        installation = plans.Installation(
            root=Path(settings.BASE_DIR),
            data_dir=self.data_dir,
            port=settings.SLUICEGATE_PORT,
            redis_url=settings.SLUICEGATE_REDIS_URL,
            concurrency=settings.SLUICEGATE_WORKERS,
            queues=list(dict.fromkeys([*SHIPPED_QUEUES, *newest_versions()])),
            sink_port=self._choose_sink_port(),
        )
        connections.close_all()
        if installation.sink_port is not None:
            supervisor.start(plans.plan_sink(installation))
        self._say(f"web, monitor and workers ({installation.concurrency} at a time): starting")
        supervisor.start(plans.plan_web(installation))
        web = supervisor.children[-1]
        supervisor.start(plans.plan_monitor(installation))
        if settings.SLUICEGATE_WORKERS:
            supervisor.start(plans.plan_workers(installation))
        supervisor.wait_until(
            lambda: ports.is_alive(installation.port), child=web, within_s=WEB_READY_S, what="the web process"
        )
        if settings.SLUICEGATE_DEMO:
            supervisor.start(plans.plan_workload(installation))
        for line in greet(
            port=settings.SLUICEGATE_PORT,
            data_dir=self.data_dir,
            password=prepared.password,
            key=prepared.key,
            drills=settings.SLUICEGATE_DRILLS,
            workers=installation.concurrency,
        ):
            self._print(line)
        self._say(f"up after {time.monotonic() - self.started_at:.1f} s")

    def _choose_sink_port(self) -> int | None:
        """Where the demonstration's sink listens; None where there is none.

        Its jobs carry the sink's address, and what was accepted is done: so it stays at its port from start
        to start, and without a demonstration it serves until nothing that one may have left waits any more.
        """
        kept = ports.KeptPort(self.data_dir / "run" / "sink_port")
        if settings.SLUICEGATE_DEMO:
            return kept.keep()
        if kept.port is None:
            return None
        if not any(row["depth"] + row["delayed"] + row["in_flight"] for row in _queues()):
            kept.forget()
            return None
        self._say("sink: still there, for jobs that the demonstration may have left")
        return kept.keep()

    def _start_server(self, supervisor: Supervisor) -> None:
        binary = server.find_binary()
        socket_path = Path(settings.SLUICEGATE_SOCKET_PATH)
        server.link_socket_directory(socket_path, self.data_dir)
        if server.is_listening(socket_path):
            raise server.ServerMissing(
                f"another server, not started by this installation, listens on {socket_path}; stop it first"
            )
        configuration = server.write_configuration(
            self.data_dir / "redis",
            socket_path=socket_path,
            pid_file=self.data_dir / "run" / "redis.pid",
            durability=settings.SLUICEGATE_DURABILITY,
            max_memory_bytes=settings.SLUICEGATE_MAX_MEMORY_BYTES,
        )
        megabytes = settings.SLUICEGATE_MAX_MEMORY_BYTES // (1024 * 1024)
        self._say(
            f"redis: {binary.name} in {shown(self.data_dir / 'redis')}, durability "
            f"{settings.SLUICEGATE_DURABILITY}, at most {megabytes} MiB"
        )
        child = supervisor.start(plans.plan_server(binary, configuration, self.data_dir))
        supervisor.wait_until(
            lambda: server.answers(socket_path), child=child, within_s=SERVER_READY_S, what="the Redis server"
        )

    def _check_server(self) -> None:
        health = open_gate().health()
        if health["state"] in ("down", "timeout", "auth", "error"):
            raise server.ServerMissing(
                f"the server that SLUICEGATE_REDIS_URL names does not serve: "
                f"{health['state']}, {health['detail']}"
            )
        self._say(f"redis: {health.get('version')} at the address in SLUICEGATE_REDIS_URL, {health['state']}")
        if health.get("policy") not in (None, "noeviction"):
            self._say(
                f"redis: WARNING: maxmemory-policy is {health['policy']}: "
                "accepted jobs may vanish; set noeviction"
            )

    def _prepare(self) -> Prepared:
        prepared = prepare_database(self.data_dir)
        _, unmet = prepare_gate(
            str(shown(self.data_dir)), instead="set SLUICEGATE_DATA_DIR to an empty folder"
        )
        if unmet:
            self._say(f"redis: WARNING: {unmet}")
        return prepared

    def _check_port(self) -> None:
        port = settings.SLUICEGATE_PORT
        if not ports.is_free(port):
            raise CommandError(
                f"port {port} is taken; set SLUICEGATE_PORT to a free one, for instance {ports.find_free()}"
            )

    def _say(self, text: str) -> None:
        self._print(f"{time.strftime('%H:%M:%S')} {text}")

    def _print(self, text: str) -> None:
        try:
            print(text, flush=True)
        except OSError:
            # The terminal is gone: what is running is stopped all the same, and in order.
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 it lives as long as the process


def _queues() -> Iterable[Mapping[str, Any]]:
    rows: Mapping[str, Mapping[str, Any]] = open_gate().snapshot()["queues"]
    return rows.values()

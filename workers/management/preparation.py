"""How is an installation made ready to run? Tables, shipped defaults, first user and key, what Redis needs.

`up` does it at its start and `prepare` alone; both may run again at any time, and several at once.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from ..actions import bootstrap, name_server
from ..actions.gate import open_gate
from ..store.durability import find_unmet
from ..supervise.kept import keep_secret

#: Key of PostgreSQL's advisory lock: "sluice" read as a number.
ONE_AT_A_TIME: Final = int.from_bytes(b"sluice", "big")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was done; ``password`` and ``key`` are those that were made just now."""

    migrations: int
    made: bootstrap.Made
    password: str | None = None
    key: str | None = None


def prepare_database(data_dir: Path) -> Prepared:
    """Brings the tables up to date and adds what is missing. Needs no Redis."""
    with _one_at_a_time(data_dir):
        migrations = _migrate()
        password = key = None
        if not settings.SLUICEGATE_OPERATOR_PASSWORD and not bootstrap.has_users():
            # Once somebody is there, users are their own affair.
            settings.SLUICEGATE_OPERATOR_PASSWORD, is_new = keep_secret(
                data_dir / "operator_password", length_bytes=12
            )
            password = settings.SLUICEGATE_OPERATOR_PASSWORD if is_new else None
        if not settings.SLUICEGATE_API_KEY:
            settings.SLUICEGATE_API_KEY, is_new = keep_secret(
                data_dir / "api_key", prefix="sg_default_", length_bytes=24
            )
            key = settings.SLUICEGATE_API_KEY if is_new else None
        return Prepared(migrations, bootstrap.prepare_database(), password, key)


def prepare_gate(where: str, *, instead: str) -> tuple[bootstrap.Restored, str]:
    """Publishes to Redis what it lacks; gives also why the durability asked for is not met ("" where it is).

    Raises:
        CommandError: ``where`` holds a gate of an older form; ``instead`` says what to use.
        StoreUnavailable: Redis cannot be asked.
    """
    store = open_gate()
    if store.has_old_layout():
        raise CommandError(
            f"{where} was written by an earlier checkout, in a form that is not read any more; "
            f"drain it there, or {instead}"
        )
    restored = bootstrap.restore_gate(store)
    name_server.execute()
    return restored, find_unmet(settings.SLUICEGATE_DURABILITY, store.health())


def _migrate() -> int:
    """Applies what is missing; how many steps."""
    executor = MigrationExecutor(connection)
    steps = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if steps:
        call_command("migrate", verbosity=0, interactive=False)
    return len(steps)


@contextmanager
def _one_at_a_time(data_dir: Path) -> Iterator[None]:
    """Two that bring the same tables up to date at once would make them twice."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            usual = cursor.fetchone()
            # Who comes second waits for the first, as long as that takes; tables are waited for as always.
            cursor.execute("SET lock_timeout = 0")
            cursor.execute("SELECT pg_advisory_lock(%s)", [ONE_AT_A_TIME])
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", usual)
            try:
                yield
            finally:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [ONE_AT_A_TIME])
        return
    handle = os.open(data_dir / "prepare.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # dropped by the system with this process, however it ends
        yield
    finally:
        os.close(handle)

"""Make the database and Redis ready for processes that are started one by one; may run again at any time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from ...exceptions import StoreUnavailable
from ...supervise.greeting import shown
from ..preparation import Prepared, prepare_database, prepare_gate


class Command(BaseCommand):
    help = (
        "Bring the tables up to date, add shipped policies, rules, roles, the first user and key, and "
        "publish to Redis. What is there stays as it is; run it before each release is started."
    )
    requires_system_checks: ClassVar[list[str]] = []

    def handle(self, *args: Any, **options: Any) -> None:
        data_dir = Path(settings.SLUICEGATE_DATA_DIR)
        try:
            prepared = prepare_database(data_dir)
        except DatabaseError as fault:
            first = str(fault).strip().split("\n", 1)[0]
            raise CommandError(f"the database cannot be prepared: {first}") from None
        for line in (*tell(prepared, data_dir), *self._publish()):
            self.stdout.write(line)

    def _publish(self) -> list[str]:
        try:
            restored, unmet = prepare_gate("Redis holds a gate that", instead="name another SLUICEGATE_GATE")
        except StoreUnavailable as fault:
            return [f"redis     not reached ({fault.reason}); the monitor publishes to it once it is there"]
        done = [
            f"{what} {', '.join(names)}"
            for what, names in (
                ("policies", restored.policies),
                ("downstreams", restored.downstreams),
                ("modes", ["the gate" if scope == "*" else scope for scope in restored.modes]),
            )
            if names
        ] + restored.authority
        told = [f"redis     published {'; '.join(done)}" if done else "redis     has all that it needs"]
        return [*told, f"redis     WARNING: {unmet}"] if unmet else told


def tell(prepared: Prepared, data_dir: Path) -> list[str]:
    """One line for each thing that must be there: what was done, or that it was there."""
    steps, made = prepared.migrations, prepared.made
    return [
        f"database  {connection.vendor}: "
        + (
            f"{steps} step{'s' if steps > 1 else ''} of its tables made" if steps else "tables are up to date"
        ),
        f"policies  {_added(made.policies)}",
        f"rules     {_added(made.rules)}",
        f"roles     {_added(made.roles)}",
        f"user      {_tell_user(prepared, data_dir)}",
        f"key       {_tell_key(prepared, data_dir)}",
    ]


def _added(names: list[str]) -> str:
    return f"added {', '.join(names)}" if names else "there already"


def _tell_user(prepared: Prepared, data_dir: Path) -> str:
    if prepared.password is not None:
        kept = shown(data_dir / "operator_password")
        return f"operator, password {prepared.password} (shown this once, kept in {kept})"
    if not prepared.made.user:
        return "there already"
    if os.environ.get("SLUICEGATE_OPERATOR_PASSWORD"):
        return "operator, password as SLUICEGATE_OPERATOR_PASSWORD says"
    return f"operator, password as first made in {shown(data_dir / 'operator_password')}"


def _tell_key(prepared: Prepared, data_dir: Path) -> str:
    if prepared.key is not None:
        return f"{prepared.key} (tenant default; shown this once, kept in {shown(data_dir / 'api_key')})"
    if not prepared.made.key:
        return "there already"
    if os.environ.get("SLUICEGATE_API_KEY"):
        return "of tenant default, as SLUICEGATE_API_KEY says"
    return f"of tenant default, as first made in {shown(data_dir / 'api_key')}"

"""Make, list and revoke API keys."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workers.actions import create_key, revoke_key
from workers.actions.actor import Actor, NotPossible
from workers.actions.gate import open_gate
from workers.models import ApiKey


class Command(BaseCommand):
    help = "Make, list or revoke API keys."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        make = verbs.add_parser("create", help="make a key; it is printed once")
        make.add_argument("--tenant", default="default")
        make.add_argument(
            "--scopes", nargs="+", required=True, help="submit read operate admin, or with commas"
        )
        make.add_argument("--tasks", nargs="*", default=[], help="globs of tasks that it may submit")
        make.add_argument("--queues", nargs="*", default=[], help="globs of queues that it may submit to")
        make.add_argument("--label", default="")
        verbs.add_parser("list", help="show the keys there are")
        end = verbs.add_parser("revoke", help="end a key")
        end.add_argument("id", help="its number or prefix")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = Actor(getpass.getuser(), "admin", "cli")
        try:
            getattr(self, f"_{options['verb']}")(actor, options)
        except NotPossible as fault:
            raise CommandError(fault.detail) from fault

    def _create(self, actor: Actor, options: dict[str, Any]) -> None:
        scopes = [scope for words in options["scopes"] for scope in words.split(",") if scope]
        result = create_key.execute(
            actor,
            tenant=options["tenant"],
            scopes=scopes,
            tasks=options["tasks"],
            queues=options["queues"],
            label=options["label"],
        )
        self.stdout.write(result.data["key"])

    def _list(self, actor: Actor, options: dict[str, Any]) -> None:
        for row in ApiKey.objects.all():
            ended = "revoked" if row.revoked_at else "live"
            self.stdout.write(
                f"{row.pk}\t{row.prefix}\t{row.tenant}\t{','.join(row.scopes)}\t{ended}\t{row.label}"
            )

    def _revoke(self, actor: Actor, options: dict[str, Any]) -> None:
        wanted = options["id"]
        rows = ApiKey.objects.filter(pk=wanted) if wanted.isdigit() else ApiKey.objects.filter(prefix=wanted)
        if rows.count() != 1:
            raise CommandError(f"{rows.count()} keys are called {wanted!r}; see `apikey list`")
        revoke_key.execute(actor, store=open_gate(), key_id=rows.get().pk)
        self.stdout.write("revoked")

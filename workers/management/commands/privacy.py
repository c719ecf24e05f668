"""Delete by tag or tenant, and read the receipts, from the command line."""

from __future__ import annotations

import getpass
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...actions import delete_payloads
from ...actions.actor import Actor, NotPossible
from ...actions.gate import open_gate
from ...exceptions import StoreUnavailable
from ...models import Deletion


class Command(BaseCommand):
    help = "Delete what jobs about a person (a tag) or a tenant carry, and show the receipts."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        order = verbs.add_parser("delete", help="order a deletion; the monitor does it")
        order.add_argument("--tag")
        order.add_argument("--tenant")
        order.add_argument("--reason", required=True, help="kept in the receipt")
        verbs.add_parser("receipts", help="deletions, newest first, a JSON document a line")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(options)
        except NotPossible as fault:
            raise CommandError(fault.detail) from fault
        except StoreUnavailable as fault:
            raise CommandError(str(fault)) from fault

    def _delete(self, options: dict[str, Any]) -> None:
        result = delete_payloads.execute(
            Actor(getpass.getuser(), "admin", "cli"),
            store=open_gate(),
            tag=options["tag"],
            tenant=options["tenant"],
            reason=options["reason"],
        )
        self.stdout.write(f"ordered; receipt {result.target}")

    def _receipts(self, options: dict[str, Any]) -> None:
        for row in Deletion.objects.all()[:100]:
            self.stdout.write(json.dumps(delete_payloads.show_deletion(row)))

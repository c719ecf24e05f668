"""Suspend and resume tenants from the command line."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...actions import resume_tenant, suspend_tenant
from ...actions.actor import Actor, NotPossible
from ...actions.gate import open_gate
from ...exceptions import StoreUnavailable
from ...models import Suspension


class Command(BaseCommand):
    help = "Suspend a tenant, resume it, or list those that are suspended."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", help="suspended tenants")
        for verb, text in (
            ("suspend", "refuse what a tenant offers and hold what it has waiting"),
            ("resume", "let it go on"),
        ):
            sub = verbs.add_parser(verb, help=text)
            sub.add_argument("tenant")
            sub.add_argument("--reason", required=verb == "suspend", default="", help="kept in the journal")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"] == "list":
            for row in Suspension.objects.all():
                self.stdout.write(f"{row.tenant}\tby {row.by}\t{row.reason}")
            return
        action = suspend_tenant if options["verb"] == "suspend" else resume_tenant
        actor = Actor(getpass.getuser(), "admin", "cli")
        try:
            data = action.execute(
                actor, store=open_gate(), tenant=options["tenant"], reason=options["reason"]
            ).data
        except NotPossible as fault:
            raise CommandError(fault.detail) from fault
        except StoreUnavailable as fault:
            raise CommandError(str(fault)) from fault
        number = data.get("held", data.get("released"))
        done = "suspended, held" if options["verb"] == "suspend" else "resumed, let go"
        later = "" if data["in_force"] else "; Redis is away: in force when it is back"
        if data.get("seen") is False:
            later += "; not seen so far: no job and no key is known of a tenant of this name"
        self.stdout.write(f"{done}: {number if number is not None else 'not known'} jobs{later}")

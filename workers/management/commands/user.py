"""Make a user, or change one's role and password."""

from __future__ import annotations

import getpass
import secrets
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workers.actions import create_user
from workers.actions.actor import ROLES, Actor, NotPossible


class Command(BaseCommand):
    help = "Make a user of the control room, or change one."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, text in (("create", "make a user"), ("change", "give a user another role or password")):
            sub = verbs.add_parser(verb, help=text)
            sub.add_argument("name")
            sub.add_argument("--role", choices=ROLES, required=True)
            sub.add_argument("--password", help="asked for, or made up and printed, if left out")

    def handle(self, *args: Any, **options: Any) -> None:
        password, made_up = options["password"], False
        if password is None and options["verb"] == "create":
            password, made_up = _find_password()
        try:
            create_user.execute(
                Actor(getpass.getuser(), "admin", "cli"),
                name=options["name"],
                role=options["role"],
                password=password,
                change=options["verb"] == "change",
                check_password=not made_up,
            )
        except NotPossible as fault:
            raise CommandError(fault.detail) from fault
        self.stdout.write(f"user {options['name']}, role {options['role']}")
        if made_up:
            self.stdout.write(f"password {password}")


def _find_password() -> tuple[str, bool]:
    if sys.stdin.isatty():
        return getpass.getpass("password: "), False
    return secrets.token_urlsafe(15), True

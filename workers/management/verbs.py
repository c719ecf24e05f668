"""How does a command of several verbs (`mode show`, `mode set`) run the one that was asked for?"""

from __future__ import annotations

import getpass
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ..actions.actor import Actor, NotPossible
from ..exceptions import StoreUnavailable


class VerbCommand(BaseCommand):
    """Runs the method that is named after the verb; what is not possible is told in one line."""

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(options)
        except NotPossible as fault:
            raise CommandError(fault.detail) from fault
        except StoreUnavailable as fault:
            raise CommandError(str(fault)) from fault


def reason_given(text: str) -> str:
    """For `--reason`: the page takes no blank one either."""
    if not text.strip():
        raise ArgumentTypeError("say why: it is kept in the journal")
    return text


def who() -> Actor:
    """Whoever has the machine's shell acts as an administrator, under the name of its account."""
    return Actor(getpass.getuser(), "admin", "cli")

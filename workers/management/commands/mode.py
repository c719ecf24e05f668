"""Show and set modes from the command line."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from ...actions import set_mode
from ...actions.gate import open_gate, redis_now_ms
from ...modes.effect import is_over
from ..verbs import VerbCommand, reason_given, who


class Command(VerbCommand):
    help = "Show the modes, or set one: mode set draining --queue bulk --reason 'deploy' --until drained"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("show", help="the modes in force")
        change = verbs.add_parser("set", help="set the mode of the installation or of a queue")
        change.add_argument("mode", choices=set_mode.SETTABLE)
        change.add_argument("--queue", default=set_mode.EVERYWHERE, help="a queue (the installation)")
        change.add_argument("--reason", required=True, type=reason_given, help="kept in the journal")
        change.add_argument("--until", help="an ISO 8601 time, or drained: at once, if nothing waits or runs")
        change.add_argument("--pin", action="store_true", help="also against other operators; needs --until")

    def _show(self, options: dict[str, Any]) -> None:
        store = open_gate()
        now_ms = redis_now_ms(store)
        for scope, mode in sorted(store.read_modes().items()):
            if is_over(mode, now_ms=now_ms):
                continue
            name = "installation" if scope == set_mode.EVERYWHERE else scope
            self.stdout.write(f"{name}\t{mode['mode']}\tby {mode['by']}\t{mode['reason']}")

    def _set(self, options: dict[str, Any]) -> None:
        set_mode.execute(
            who(),
            store=open_gate(),
            mode=options["mode"],
            scope=options["queue"],
            reason=options["reason"],
            until=options["until"],
            pinned=options["pin"],
        )
        self._show(options)

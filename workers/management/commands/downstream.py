"""Show, make, change and remove downstreams from the command line."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from ...actions import change_downstream
from ...actions.downstreams import standing
from ...actions.gate import open_gate
from ...limits.downstream import FIELDS, Downstream
from ..verbs import VerbCommand, reason_given, who


class Command(VerbCommand):
    help = "Limits found by latency: downstream set bank --target-ms 200 --max 50 --reason 'new contract'"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("show", help="the downstreams there are, with their limits now")
        change = verbs.add_parser("set", help="make or change one; what is not named stays")
        change.add_argument("name")
        for field, value in Downstream().as_fields().items():
            change.add_argument(f"--{field.replace('_', '-')}", type=type(value), help=f"{value} at first")
        change.add_argument("--reason", required=True, type=reason_given, help="kept in the journal")
        end = verbs.add_parser("remove", help="limit nothing by it any more")
        end.add_argument("name")
        end.add_argument("--reason", required=True, type=reason_given, help="kept in the journal")

    def _show(self, options: dict[str, Any]) -> None:
        live = {row["name"]: row for row in open_gate().snapshot()["downstreams"]}
        for name, row in sorted(standing().items()):
            now = live.get(name)
            limit = f"{now['in_flight']} of {int(now['limit'])} in flight" if now else "not published yet"
            settings = ", ".join(f"{field} {row.fields[field]}" for field in FIELDS if field in row.fields)
            self.stdout.write(f"{name}\tv{row.version}\t{limit}\t{settings}")

    def _set(self, options: dict[str, Any]) -> None:
        changes = {field: options[field] for field in FIELDS if options[field] is not None}
        self._change(options, changes)

    def _remove(self, options: dict[str, Any]) -> None:
        self._change(options, None)

    def _change(self, options: dict[str, Any], changes: dict[str, Any] | None) -> None:
        change_downstream.execute(
            who(),
            store=open_gate(),
            name=options["name"],
            changes=changes,
            reason=options["reason"],
        )
        self._show(options)

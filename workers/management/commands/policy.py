"""List, show and change the policies of queues from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...actions import change_policy
from ...actions.gate import open_gate
from ...actions.naming import tell_no_queue
from ...admission.policy import Policy, parse_policy
from ...models import PolicyVersion
from ..verbs import VerbCommand, reason_given, who

UNSET = ("null", "none")


class Command(VerbCommand):
    help = "Policies of queues: policy set bulk max_count=500 max_age_s=none --reason 'smaller nights'"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", help="each queue with what its policy sets")
        show = verbs.add_parser("show", help="every field of a queue's policy")
        show.add_argument("queue")
        change = verbs.add_parser("set", help="change fields; what is not named stays")
        change.add_argument("queue")
        change.add_argument(
            "fields", nargs="+", metavar="FIELD=VALUE", help="a value as JSON; null unsets it"
        )
        change.add_argument("--new", action="store_true", help="the queue has no policy yet: give it one")
        change.add_argument("--reason", required=True, type=reason_given, help="kept in the journal")

    def _list(self, options: dict[str, Any]) -> None:
        usual = Policy().as_fields()
        for queue, row in sorted(change_policy.newest_versions().items()):
            fields = parse_policy(row.fields).as_fields()
            own = ", ".join(f"{name} {_say(fields[name])}" for name in fields if fields[name] != usual[name])
            self.stdout.write(f"{queue}\tv{row.version}\tby {row.by}\t{own or 'all as usual'}")

    def _show(self, options: dict[str, Any]) -> None:
        row = _newest(options["queue"])
        self.stdout.write(f"{row.queue}\tv{row.version}\tby {row.by}\t{row.reason}")
        for name, value in parse_policy(row.fields).as_fields().items():
            self.stdout.write(f"  {name}\t{_say(value)}")

    def _set(self, options: dict[str, Any]) -> None:
        queue, changes = options["queue"], _read(options["fields"])
        row = None if options["new"] else _newest(queue)
        before = (parse_policy(row.fields) if row else Policy()).as_fields()
        data = change_policy.execute(
            who(),
            store=open_gate(),
            queue=queue,
            changes=changes,
            reason=options["reason"],
            expected_version=row.version if row else 0,
        ).data
        unchanged = "" if data["changed"] or row is None else "\tas it was"
        self.stdout.write(f"{queue}\tv{data['version']}{unchanged}")
        for name, value in data["changed"].items():
            self.stdout.write(f"  {name}\t{_say(before[name])} -> {_say(value)}")


def _newest(queue: str) -> PolicyVersion:
    row = change_policy.newest_version(queue)
    if row is None:
        known = tell_no_queue(queue, change_policy.newest_versions())
        raise CommandError(f"{known} `policy set --new` gives one.")
    return row


def _read(words: Iterable[str]) -> dict[str, Any]:
    """Values are JSON; a word that is none is a text, so that on_full=spill needs no quotes."""
    changes: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name or not text.strip():
            raise CommandError(f"{word!r} is not FIELD=VALUE; FIELD=null unsets a field.")
        if name in changes:
            raise CommandError(f"{name} is given twice.")
        try:
            changes[name] = None if text.strip().lower() in UNSET else json.loads(text)
        except ValueError:
            changes[name] = text
    return changes


def _say(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)

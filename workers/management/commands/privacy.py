"""Delete by tag or tenant, read the receipts, and renew the encryption, from the command line."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from ...actions import delete_payloads, rekey_payloads
from ...actions.gate import open_gate
from ...models import Deletion
from ..verbs import VerbCommand, reason_given, who


class Command(VerbCommand):
    help = (
        "Delete what jobs about a person (a tag) or a tenant carry; renew the encryption of what is stored."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        order = verbs.add_parser("delete", help="order a deletion; the monitor does it")
        order.add_argument("--tag")
        order.add_argument("--tenant")
        order.add_argument("--reason", required=True, type=reason_given, help="kept in the receipt")
        verbs.add_parser("receipts", help="deletions, newest first, a JSON document a line")

        rekey = verbs.add_parser(
            "rekey", help="encrypt what is stored with the first of SLUICEGATE_PAYLOAD_KEYS"
        )
        rekey.add_argument("--reason", default="", help="kept in the journal")

    def _delete(self, options: dict[str, Any]) -> None:
        result = delete_payloads.execute(
            who(),
            store=open_gate(),
            tag=options["tag"],
            tenant=options["tenant"],
            reason=options["reason"],
        )
        self.stdout.write(f"ordered; receipt {result.target}")

    def _rekey(self, options: dict[str, Any]) -> None:
        actor = who()
        data = rekey_payloads.execute(actor, store=open_gate(), reason=options["reason"]).data
        done = data["changed"]
        self.stdout.write(
            f"key {data['key']}: {done['redis']} in Redis, {done['quarantine']} in quarantine, "
            f"{done['errors']} error texts renewed"
        )
        for place, counts in data["left"].items():
            for key, number in sorted(counts.items()):
                if key != data["key"]:
                    where = "error texts" if place == "errors" else place
                    need = "in clear" if key == "in clear" else f"need {key}"
                    self.stdout.write(f"{number} in {where} still {need}")

    def _receipts(self, options: dict[str, Any]) -> None:
        for row in Deletion.objects.all()[:100]:
            self.stdout.write(json.dumps(delete_payloads.show_deletion(row)))

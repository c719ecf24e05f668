"""Say what gives way first under pressure, for a mode or for each."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from workers.actions.change_policy import newest_versions
from workers.admission.policy import parse_policy
from workers.modes.shed_order import say_entry, say_within, shed_order
from workers.states import MODES


class Command(BaseCommand):
    help = "What gives way first under pressure, from the policies in force."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--mode", choices=MODES, help="what if this mode were set; all of them unless given"
        )
        parser.add_argument("--json", action="store_true", help="for programs")

    def handle(self, *args: Any, mode: str | None = None, **options: Any) -> None:
        policies = {queue: parse_policy(row.fields).as_fields() for queue, row in newest_versions().items()}
        modes = (mode,) if mode else MODES
        if options["json"]:
            told = {name: [step.as_dict() for step in shed_order(policies, name)] for name in modes}
            self.stdout.write(json.dumps(told, indent=1))
            return
        for name in modes:
            self.stdout.write(f"{name}: {say_entry(policies, name)}")
            for step in shed_order(policies, name):
                self.stdout.write(f"  {step.place}. {step.queue}: {step.says}.")
        self.stdout.write(say_within(policies))

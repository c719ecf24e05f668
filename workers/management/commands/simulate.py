"""Compare policies in virtual time, before one is changed: the gate's own scripts on their own server."""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError

from ...admission.policy import PolicyError, parse_policy
from ...bench.server import run_server
from ...loops.modeler import model_all
from ...metrics.history import History
from ...simulate import SteppedStore
from ...simulate.compare import MOST_OFFERS, Figures, Load, run_trial
from ...supervise.server import ServerMissing, find_binary
from ..usage import COUNT, NUMBER

#: What is compared where nothing is named.
SHOWN: dict[str, dict[str, Any]] = {
    "fifo": {},
    "controlled delay": {"codel_target_ms": 500, "codel_interval_ms": 1000},
    "wait of 1 s": {"max_wait_s": 1},
}
COLUMNS = ("offered", "refused", "shed", "expired", "done", "in_time_per_s", "wait_p50_ms", "wait_p99_ms")


class Command(BaseCommand):
    help = """Compare policies in virtual time: simulate --offered 60 --policy 'edf={"order": "edf"}'"""
    requires_system_checks: ClassVar[list[str]] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--offered", type=NUMBER, default=60, help="jobs a second (60)")
        parser.add_argument("--service-ms", type=COUNT, default=100, help="service time of a job (100)")
        parser.add_argument("--slots", type=COUNT, default=4, help="jobs served at a time (4)")
        parser.add_argument("--seconds", type=COUNT, default=30, help="virtual time (30)")
        parser.add_argument(
            "--deadline-s", type=NUMBER, default=2, help="time to live of a job, 0 for none (2)"
        )
        parser.add_argument(
            "--mode", choices=("normal", "saturated"), default="normal", help="lifo needs saturated"
        )
        parser.add_argument(
            "--policy", action="append", default=[], help="NAME=JSON of policy fields; may repeat"
        )
        parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")

    def handle(self, *args: Any, **options: Any) -> None:
        policies = self._policies(options["policy"]) or SHOWN
        load = Load(
            per_s=options["offered"],
            service_ms=options["service_ms"],
            slots=options["slots"],
            seconds=options["seconds"],
            deadline_s=options["deadline_s"] or None,
        )
        if min(load.per_s, load.service_ms, load.slots, load.seconds) <= 0:
            raise CommandError("--offered, --service-ms, --slots and --seconds must be above 0")
        if load.per_s * load.seconds > MOST_OFFERS:
            raise CommandError(f"that is more than {MOST_OFFERS} offers; ask for fewer seconds")
        try:
            binary = find_binary()
        except ServerMissing as exc:
            raise CommandError(str(exc)) from exc
        found = []
        # The socket's path must stay below 104 characters, whatever TMPDIR is.
        with (
            tempfile.TemporaryDirectory(prefix="sg-sim-", dir="/tmp") as directory,
            run_server(binary, Path(directory) / "r") as socket,
        ):
            store = SteppedStore.from_url(f"unix://{socket}", "simulated", timeout_s=10)
            for name, policy in policies.items():
                fields = parse_policy(policy).as_fields()
                found.append(run_trial(store, name, fields, load, mode=options["mode"], on_tick=_monitor()))
            store.client.close()
        if options["json"]:
            self.stdout.write(
                json.dumps({"modeled": True, "trials": [figures.as_dict() for figures in found]})
            )
        else:
            self._show(found)

    def _policies(self, named: list[str]) -> dict[str, dict[str, Any]]:
        policies = {}
        for text in named:
            name, _, document = text.partition("=")
            try:
                policies[name] = json.loads(document or "{}")
                if not isinstance(policies[name], dict):
                    raise ValueError('give a JSON object of fields, {"max_count": 5}')
                parse_policy(policies[name])
            except (ValueError, PolicyError, TypeError) as fault:
                raise CommandError(f"--policy {name}: {fault}") from fault
        return policies

    def _show(self, found: list[Figures]) -> None:
        width = max(len(figures.name) for figures in found)
        head = "  ".join(f"{column.replace('_', ' '):>13}" for column in COLUMNS)
        self.stdout.write(f"{'':{width}}  {head}   (modeled)")
        for figures in found:
            row = figures.as_dict()
            cells = "  ".join(f"{'-' if row[c] is None else row[c]:>13}" for c in COLUMNS)
            self.stdout.write(f"{figures.name:{width}}  {cells}")


def _monitor() -> Callable[[SteppedStore], None]:
    """What the monitor does each second for the bounds and the times to come back."""
    history = History()

    def tick(store: SteppedStore) -> None:
        history.add(store.snapshot())
        assert history.latest is not None
        for queue, figures in model_all(history, history.latest).items():
            store.publish_model(queue, figures)

    return tick

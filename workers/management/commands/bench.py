"""Measure the gate against stock Celery, side by side on this machine."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError

from ...bench.comparison import Comparison
from ...bench.measurements import MEASUREMENTS
from ...bench.report import describe_environment, format_environment, format_header, format_row
from ...bench.sides import Bench
from ...supervise.server import ServerMissing, find_binary


class Command(BaseCommand):
    help = "Side-by-side benchmark of the gate and stock Celery on servers of its own. Needs no database."
    requires_system_checks: ClassVar[list[str]] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--only", action="append", choices=sorted(MEASUREMENTS), help="may be given again"
        )
        parser.add_argument("--rounds", type=int, default=5, help="pairs of each measurement (5)")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["rounds"] < 1:
            raise CommandError("--rounds must be at least 1")
        try:
            binary = find_binary()
        except ServerMissing as exc:
            raise CommandError(str(exc)) from exc
        # A bench that is told to stop takes its servers and workers along.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        environment = describe_environment(binary, options["rounds"])
        is_json = options["json"]
        if not is_json:
            self.stdout.write(f"{format_environment(environment)}\n{format_header()}")
        found: list[Comparison] = []
        failures: dict[str, str] = {}
        # The socket's path must stay below 104 characters, whatever TMPDIR is.
        with tempfile.TemporaryDirectory(prefix="sg-bench-", dir="/tmp") as directory:
            bench = Bench(binary, Path(directory))
            for name in options["only"] or list(MEASUREMENTS):
                print(f"bench: {name}, {options['rounds']} rounds", file=sys.stderr, flush=True)
                try:
                    comparisons = MEASUREMENTS[name](bench, options["rounds"])
                except (TimeoutError, RuntimeError, OSError) as exc:
                    failures[name] = str(exc)
                    continue
                found += comparisons
                if not is_json:
                    self.stdout.write("\n".join(format_row(comparison) for comparison in comparisons))
                    self.stdout.flush()
        if is_json:
            rows = [comparison.as_document() for comparison in found]
            document = {"environment": environment, "measurements": rows, "failures": failures}
            self.stdout.write(json.dumps(document, indent=2))
        if failures:
            raise CommandError(
                "not measured: " + "; ".join(f"{name}: {why}" for name, why in failures.items())
            )

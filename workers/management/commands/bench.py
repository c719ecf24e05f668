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
from ...bench.overload import QUARTERS, measure_overload
from ...bench.report import (
    describe_environment,
    format_environment,
    format_header,
    format_minute,
    format_minute_header,
    format_row,
)
from ...bench.sides import Bench
from ...supervise.server import ServerMissing, find_binary

OVERLOAD = "overload"


class Command(BaseCommand):
    help = "Side-by-side benchmark of the gate and stock Celery on servers of its own. Needs no database."
    requires_system_checks: ClassVar[list[str]] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--only", action="append", choices=[*sorted(MEASUREMENTS), OVERLOAD], help="may be given again"
        )
        parser.add_argument(
            "--minutes", type=int, default=8, help=f"of --only {OVERLOAD}, which is not run unasked (8)"
        )
        parser.add_argument("--rounds", type=int, default=5, help="pairs of each measurement (5)")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["rounds"] < 1:
            raise CommandError("--rounds must be at least 1")
        if options["minutes"] < len(QUARTERS):
            raise CommandError(f"--minutes must be at least {len(QUARTERS)}")
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
        overload: dict[str, Any] | None = None
        # The socket's path must stay below 104 characters, whatever TMPDIR is.
        with tempfile.TemporaryDirectory(prefix="sg-bench-", dir="/tmp") as directory:
            bench = Bench(binary, Path(directory))
            for name in options["only"] or list(MEASUREMENTS):
                unit = "minutes" if name == OVERLOAD else "rounds"
                print(f"bench: {name}, {options[unit]} {unit}", file=sys.stderr, flush=True)
                try:
                    if name == OVERLOAD:
                        overload = self._overload(bench, options["minutes"], is_json)
                        continue
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
            if overload is not None:
                document["overload"] = overload
            self.stdout.write(json.dumps(document, indent=2))
        if failures:
            raise CommandError(
                "not measured: " + "; ".join(f"{name}: {why}" for name, why in failures.items())
            )

    def _overload(self, bench: Bench, minutes: int, is_json: bool) -> dict[str, Any]:
        """Each minute as it is known: in the table, or on stderr while the document is awaited."""

        def tell(text: str) -> None:
            print(text, file=sys.stderr if is_json else self.stdout, flush=True)

        tell(format_minute_header())
        found = measure_overload(bench, minutes, lambda row: tell(format_minute(row)))
        tell("the quarters")
        for row in found["quarters"]:
            tell(format_minute(row))
        return found

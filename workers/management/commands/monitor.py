"""Which process watches the gate? This one: every background loop, until told to stop."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ...loops.monitor import Monitor


class Command(BaseCommand):
    help = "Runs the monitor: samples, frames, modes, alerts, recorder, replayer. Several may run; one leads."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="make one frame, print it and leave")

    def handle(self, *args: Any, **options: Any) -> None:
        monitor = Monitor.from_settings()
        if options["once"]:
            monitor.sampler.tick()
            self.stdout.write(json.dumps(monitor.sampler.frame, indent=2))
            return
        monitor.run()

"""Offer load to the gate: a rate, a trace or the demonstration's work; then say how it was answered."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from celery import Celery
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from ...flood.arrivals import Arrival, Mix, arrive_constantly, arrive_from_trace, arrive_in_bursts
from ...flood.demonstration import SinkTuner, arrive_as_demonstration
from ...flood.doors import CeleryDoor, Door, HttpDoor
from ...flood.run import Flood, Manner, Polite, Rude
from ...flood.scoreboard import format_scoreboard
from ...flood.swf import read_swf
from ...flood.watch import Watch
from ...store import Store
from ..usage import COUNT, NUMBER, SOME, at_least

DEFAULT_DURATION_S = 30.0
DRAIN_LIMIT_S = 600.0


class Command(BaseCommand):
    help = "Offer load to the gate and show how it was answered. Ctrl-C shows the scoreboard so far."
    requires_system_checks: ClassVar[list[str]] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        load = parser.add_argument_group("load")
        load.add_argument("--rate", type=NUMBER, default=10.0, help="jobs a second (10)")
        load.add_argument("--count", type=COUNT, help="stop after so many jobs")
        load.add_argument("--duration", type=NUMBER, help="stop offering new jobs after so many seconds")
        shape = load.add_mutually_exclusive_group()
        shape.add_argument("--constant", action="store_true", help="at equal distances (the default)")
        shape.add_argument("--bursty", action="store_true", help="at random, most of it in bursts")
        load.add_argument("--trace", type=Path, metavar="FILE.swf[.gz]", help="replay arrivals of a trace")
        load.add_argument("--speedup", type=NUMBER, default=3600.0, help="trace seconds a second (3600)")
        load.add_argument("--limit-seconds", type=NUMBER, help="stop the trace after so many seconds of here")
        load.add_argument(
            "--from-seconds", type=NUMBER, default=0.0, help="skip so much of the trace, in its seconds"
        )
        load.add_argument(
            "--service-scale", type=NUMBER, default=1.0, help="times the compressed run times (1)"
        )
        load.add_argument(
            "--sleep-cap", type=NUMBER, default=5.0, help="longest sleep of a trace's job, seconds (5)"
        )
        load.add_argument("--demo", action="store_true", help="endless everyday work over all queues")
        load.add_argument(
            "--slots",
            type=SOME,
            help="worker slots that --demo is made for (default: as it finds)",
        )
        load.add_argument("--seed", type=int, help="the same flood again")
        job = parser.add_argument_group("jobs")
        job.add_argument("--task", help="drill.echo, or drill.sleep with --seconds")
        job.add_argument("--seconds", type=NUMBER, help="sleep of each job")
        job.add_argument("--args", dest="task_args", help="JSON list")
        job.add_argument("--kwargs", dest="task_kwargs", help="JSON object")
        job.add_argument("--payload-bytes", type=COUNT, default=0, help="ballast in each message")
        job.add_argument("--cost-ms", type=SOME, help="declared cost")
        job.add_argument("--deadline-s", type=at_least(0.001))
        job.add_argument(
            "--queue", "--mix", dest="queue", default="normal", help="normal, or critical=1,bulk=3"
        )
        job.add_argument("--tenants", default="default", help="a number, or names: acme,zeta=3")
        manner = parser.add_argument_group("manner")
        kind = manner.add_mutually_exclusive_group()
        kind.add_argument("--polite", action="store_true", help="come back when asked, until accepted")
        kind.add_argument(
            "--rude", action="store_true", help="take no advice (the default): once, or --retries"
        )
        manner.add_argument(
            "--retries",
            type=COUNT,
            default=0,
            help="with --rude: at once again, so many times",
        )
        manner.add_argument(
            "--patience", type=NUMBER, default=600.0, help="with --polite: seconds for a job (600)"
        )
        manner.add_argument("--via", choices=["http", "celery"], default="celery")
        manner.add_argument("--url", help="the HTTP door (http://127.0.0.1:$SLUICEGATE_PORT)")
        manner.add_argument(
            "--api-key", action="append", default=[], help="KEY, or TENANT=KEY; may be given again"
        )
        manner.add_argument("--senders", type=SOME, help="threads (16 for http, 2 for celery)")
        shown = parser.add_argument_group("what is shown")
        shown.add_argument("--watch", action="store_true", help="the gate's own highest readings beside it")
        shown.add_argument("--until-drained", action="store_true", help="and how long the backlog took to go")
        shown.add_argument("--json", action="store_true", help="one JSON document at the end")

    def handle(self, *args: Any, **options: Any) -> None:
        source = random.Random(options["seed"])
        sink = self._sink() if options["demo"] else None
        arrivals = self._arrivals(options, source, sink)
        flood = Flood(self._door(options), _manner(options, source), senders=_senders(options))
        watch = Watch(_store()) if options["watch"] or options["until_drained"] else None
        was_stopped = _stop_on_signals(flood)
        progress = threading.Thread(target=_show_progress, args=(flood, sink, was_stopped), daemon=True)
        if watch is not None:
            watch.start()
        progress.start()
        drained_s = None
        try:
            flood.run(arrivals)
            took_s = flood.elapsed_s
            if watch is not None and options["until_drained"] and not was_stopped.is_set():
                drained_s = watch.await_drained(DRAIN_LIMIT_S)
        finally:
            was_stopped.set()
            progress.join(3)
            if watch is not None:
                watch.stop()
        document = {"elapsed_s": round(took_s, 3), **flood.scoreboard.as_document()}
        document["offered_per_s"] = round(document["offered"] / took_s, 2) if took_s > 0 else None
        if watch is not None:
            document["gate"] = watch.as_document()
            if options["until_drained"]:
                document["drained_s"] = drained_s if drained_s is None else round(drained_s, 2)
        self._show(document, as_json=options["json"])

    def _show(self, document: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(document))
            return
        self.stdout.write(format_scoreboard(document))
        self.stdout.write(f"{document['elapsed_s']:.1f} s, {document['offered_per_s']} offers/s")
        for name, row in document.get("gate", {}).get("queues", {}).items():
            peak = ", ".join(f"{key} {value}" for key, value in row["peak"].items())
            self.stdout.write(f"gate, {name}: peak {peak}")
        if "gate" in document and "redis_used_bytes" in document["gate"]:
            used = document["gate"]["redis_used_bytes"]
            self.stdout.write(
                f"redis bytes: {used['before']} before, {used['peak']} at most, {used['after']} after"
            )
        if "drained_s" in document:
            shown = document["drained_s"]
            self.stdout.write(
                "not drained in time" if shown is None else f"drained {shown:.1f} s after the last offer"
            )

    def _arrivals(
        self, options: dict[str, Any], source: random.Random, sink: str | None
    ) -> Iterator[Arrival]:
        if sink is not None:
            return arrive_as_demonstration(sink, slots=options["slots"] or _find_slots(), source=source)
        if options["trace"] is not None:
            if not options["trace"].is_file():
                raise CommandError(f"there is no file {options['trace']}")
            _require_positive(options, "speedup", "service_scale", "sleep_cap")
            return arrive_from_trace(
                read_swf(options["trace"]),
                speedup=options["speedup"],
                service_scale=options["service_scale"],
                sleep_cap_s=options["sleep_cap"],
                limit_s=options["limit_seconds"],
                from_s=options["from_seconds"],
            )
        _require_positive(options, "rate")
        count, duration_s = options["count"], options["duration"]
        if count is None and duration_s is None:
            duration_s = DEFAULT_DURATION_S
        arrive = arrive_in_bursts if options["bursty"] else arrive_constantly
        return arrive(_mix(options), options["rate"], count=count, duration_s=duration_s, source=source)

    def _door(self, options: dict[str, Any]) -> Door:
        if options["via"] == "celery":
            return CeleryDoor(_celery_app())
        keys = dict(_split_key(text) for text in options["api_key"])
        if not keys:
            own = settings.SLUICEGATE_API_KEY or _kept_key()
            if own is None:
                raise CommandError("no API key; give --api-key KEY or set SLUICEGATE_API_KEY")
            keys = {"*": own}
        url = options["url"] or f"http://127.0.0.1:{os.environ.get('SLUICEGATE_PORT', '8000')}"
        return HttpDoor(url, keys)

    def _sink(self) -> str:
        sink = os.environ.get("SLUICEGATE_SINK_URL")
        if not sink:
            raise CommandError(
                "--demo needs the sink that its jobs call: `python -m workers.tasks.sink --port 8099` and "
                "set SLUICEGATE_SINK_URL=http://127.0.0.1:8099 here and for the workers"
            )
        return sink.rstrip("/")


def _mix(options: dict[str, Any]) -> Mix:
    task = options["task"] or ("drill.sleep" if options["seconds"] is not None else "drill.echo")
    args: list[Any] = _json_of(options["task_args"], list, "--args") or []
    kwargs: dict[str, Any] = _json_of(options["task_kwargs"], dict, "--kwargs") or {}
    ballast = "x" * options["payload_bytes"]
    if task == "drill.sleep":
        if options["seconds"] is not None:
            kwargs["seconds"] = options["seconds"]
        if ballast:
            kwargs["ballast"] = ballast
    elif task == "drill.echo" and not args and not kwargs:
        args = [ballast]
    elif ballast:
        raise CommandError(
            "--payload-bytes goes with drill.echo and drill.sleep; for other tasks use --kwargs"
        )
    return Mix(
        task,
        queues=_weights(options["queue"], "--queue"),
        tenants=_tenants(options["tenants"]),
        args=args,
        kwargs=kwargs,
        cost_ms=options["cost_ms"],
        deadline_s=options["deadline_s"],
    )


def _manner(options: dict[str, Any], source: random.Random) -> Manner:
    if options["polite"] or options["demo"]:
        return Polite(options["patience"], source)
    return Rude(options["retries"])


def _senders(options: dict[str, Any]) -> int:
    return options["senders"] or (16 if options["via"] == "http" else 2)


def _celery_app() -> Celery:
    return import_string(settings.SLUICEGATE_CELERY_APP)


def _store() -> Store:
    return Store.from_url(settings.SLUICEGATE_REDIS_URL, settings.SLUICEGATE_GATE)


def _find_slots() -> int:
    """Live worker slots as the gate knows them; two until it knows of any."""
    try:
        workers = _store().snapshot()["workers"]
    except Exception:  # noqa: BLE001 the demonstration may start before everything else is up
        workers = []
    return sum(int(worker.get("slots") or 0) for worker in workers) or int(
        os.environ.get("SLUICEGATE_WORKERS") or 2
    )


def _kept_key() -> str | None:
    path = Path(settings.SLUICEGATE_DATA_DIR) / "api_key"
    return path.read_text().strip() or None if path.is_file() else None


def _stop_on_signals(flood: Flood) -> threading.Event:
    """Set by a signal, and at the end."""
    was_stopped = threading.Event()

    def stop(*_: Any) -> None:
        was_stopped.set()
        flood.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return was_stopped


def _show_progress(flood: Flood, sink: str | None, stopped: threading.Event) -> None:
    """A line on stderr: each second on a terminal, else each minute. Tunes the sink beside it."""
    is_terminal = sys.stderr.isatty()
    tuner = SinkTuner(sink) if sink is not None else None
    shown_at_s, told = 0.0, None
    while not stopped.wait(1.0):
        fault = tuner.tune(flood.elapsed_s) if tuner is not None else None
        if fault is not None and fault != told:
            print(f"flood: {fault}", file=sys.stderr, flush=True)
        told = fault
        if is_terminal or time.monotonic() - shown_at_s >= 60:
            shown_at_s = time.monotonic()
            row = flood.scoreboard.as_document()
            line = f"flood: {flood.elapsed_s:.0f} s, " + ", ".join(
                f"{name.replace('_', ' ')} {row[name]}"
                for name in (
                    "offered",
                    "accepted",
                    "refused",
                    "failed",
                    "honoured_retry_afters",
                    "still_open",
                )
            )
            print(
                f"\r{line}\x1b[K" if is_terminal else line,
                end="" if is_terminal else "\n",
                file=sys.stderr,
                flush=True,
            )
    if is_terminal:
        print(file=sys.stderr)
    if tuner is not None:
        tuner.restore()


def _split_key(text: str) -> tuple[str, str]:
    tenant, separator, key = text.partition("=")
    return (tenant, key) if separator else ("*", text)


def _weights(text: str, option: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = part.strip().partition("=")
        try:
            found[name] = float(weight or 1)
        except ValueError:
            raise CommandError(f"{option}: {part!r} is not NAME or NAME=WEIGHT") from None
        if not name or not found[name] > 0:
            raise CommandError(f"{option}: {part!r} is not NAME or NAME=WEIGHT with a weight above 0")
    return found


def _tenants(text: str) -> dict[str, float]:
    if text.isdigit():
        return {f"tenant-{number}": 1.0 for number in range(1, max(1, int(text)) + 1)}
    return _weights(text, "--tenants")


def _json_of(text: str | None, kind: type, option: str) -> Any:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise CommandError(f"{option} is not JSON: {exc}") from exc
    if not isinstance(value, kind):
        raise CommandError(f"{option} must be a JSON {'list' if kind is list else 'object'}")
    return value


def _require_positive(options: dict[str, Any], *names: str) -> None:
    for name in names:
        if not options[name] > 0:
            raise CommandError(f"--{name.replace('_', '-')} must be above 0")

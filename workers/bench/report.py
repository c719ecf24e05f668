"""How is a bench read by a person, and under what circumstances was it taken?"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import celery
import kombu

from .comparison import Comparison


def describe_environment(binary: Path, rounds: int) -> dict[str, Any]:
    return {
        "server": _ask_version(binary),
        "python": platform.python_version(),
        "celery": celery.__version__,
        "kombu": kombu.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load_1m_before": round(os.getloadavg()[0], 2),
        "rounds": rounds,
        "settings": "UNIX socket, appendonly yes, appendfsync everysec; a fresh server for each measurement",
    }


def format_environment(environment: dict[str, Any]) -> str:
    shown = {**environment}
    settings, server = shown.pop("settings"), shown.pop("server")
    rest = ", ".join(f"{name} {value}" for name, value in shown.items())
    return f"{server}\n{rest}\n{settings}"


def format_header() -> str:
    return f"{'':<20}{'gate':>26}{'stock':>26}{'ratio of pairs':>22}  aim"


def format_row(comparison: Comparison) -> str:
    """Median (min to max) of both columns, then the ratio of pairs; under it what was measured."""
    row = comparison.as_document()
    first, second = comparison.sides
    aim = "" if row["aim"] is None else f"{row['aim']} {'met' if row['met'] else 'NOT met'}"
    figures = f"{_cell(row[first]):>26}{_cell(row[second]):>26}{_cell(row['ratio'], 2):>22}"
    columns = "" if comparison.sides == ("gate", "stock") else f"; columns: {first}, {second}"
    return f"{row['name']:<20}{figures}  {aim}\n    {row['unit']}; {row['note']}{columns}"


def _cell(summary: dict[str, Any] | None, digits: int = 0) -> str:
    if summary is None:
        return "unknown"
    if not digits and summary["median"] < 100:
        digits = 1
    return f"{summary['median']:.{digits}f} ({summary['min']:.{digits}f} to {summary['max']:.{digits}f})"


def format_minute_header() -> str:
    over = f"{'':<27}{'done in time':>18}{'urgent p50, ms':>18}{'urgent p99, ms':>18}{'waiting':>18}"
    sides = f"{'gate':>9}{'stock':>9}" * 4
    return f"{over}\n{'min':>5} {'load':>5} {'offered':>7} {'refused':>7}{sides}  mode"


def format_minute(row: Mapping[str, Any]) -> str:
    """One minute of an overload, or a whole quarter of it, which shows no backlog and no mode."""
    figures = "".join(
        f"{_minute_cell(row[side][name]) if name in row[side] else '':>9}"
        for name in ("in_time", "urgent_p50_ms", "urgent_p99_ms", "waiting")
        for side in ("gate", "stock")
    )
    minute = "{}-{}".format(*row["minutes"]) if "minutes" in row else str(row["minute"])
    refused = sum(row["gate"]["refused"].values())
    note = ", ".join([*row.get("modes", []), *(["deploy"] if row.get("deploy") else [])])
    behind = f"  gate behind: {', '.join(row['gate_is_worse_in'])}" if row["gate_is_worse_in"] else ""
    return f"{minute:>5} {row['load']:>4g}x {row['offered']:>7} {refused:>7}{figures}  {note}{behind}"


def _minute_cell(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f}"


def _ask_version(binary: Path) -> str:
    answer = subprocess.run(
        [str(binary), "--version"], capture_output=True, text=True, timeout=10, check=False
    )
    return answer.stdout.strip() or binary.name

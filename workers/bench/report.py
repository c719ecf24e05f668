"""How is a bench read by a person, and under what circumstances was it taken?"""

from __future__ import annotations

import os
import platform
import subprocess
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


def _ask_version(binary: Path) -> str:
    answer = subprocess.run(
        [str(binary), "--version"], capture_output=True, text=True, timeout=10, check=False
    )
    return answer.stdout.strip() or binary.name

"""Does this checkout pass? Lint, types, import rules and every test, with what they need brought first.

What cannot run here is named at the end; with CI=true that is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: pytest's exit code where nothing of what was asked for carries the marker.
NOTHING_TO_RUN = 5


@dataclass(frozen=True, slots=True)
class Need:
    """A program that some tests stand on, and the Debian packages that hold it."""

    name: str
    packages: tuple[str, ...]
    is_here: Callable[[], bool]
    leaves_out: str
    is_required: bool = True  # whether leaving it out fails the check where CI=true


def main(arguments: list[str]) -> int:
    started_at = time.monotonic()
    failed = [name for name, command in _lints() if not _run(name, command)]
    if "--lint-only" in arguments:
        return _conclude(failed, [], started_at)
    missing = [need for need in NEEDS if not _bring(need)]
    pytest = [str(BIN / "python"), "-m", "pytest", *arguments]
    command = [*pytest, "-m", "not browser"] if CHROMIUM in missing else pytest
    if not _run("pytest, SQLite", command):
        failed.append("pytest")
    if POSTGRESQL not in missing and not _run(
        "pytest, what leans on the database, PostgreSQL",
        [*pytest, "-m", "database"],
        fine=(0, NOTHING_TO_RUN),
        SLUICEGATE_TESTS_DATABASE="postgresql",
    ):
        failed.append("pytest on PostgreSQL")
    return _conclude(failed, missing, started_at)


def _lints() -> list[tuple[str, list[str]]]:
    return [
        ("ruff", [str(BIN / "ruff"), "check", "."]),
        ("mypy", [str(BIN / "mypy")]),
        ("import rules", [str(BIN / "lint-imports"), "--no-cache"]),
    ]


def _run(name: str, command: list[str], *, fine: tuple[int, ...] = (0,), **added: str) -> bool:
    print(f"== {name}", flush=True)
    environment = {**_environment(), **added}
    return subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL).returncode in fine


def _environment() -> dict[str, str]:
    """Nothing that this shell has set for its own installation may reach the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICEGATE_")}
    return {**kept, "PATH": f"{BIN}{os.pathsep}{kept.get('PATH', '')}"}


def _has_chromium() -> bool:
    return any(shutil.which(name) for name in CHROMIUM_NAMES)


def _has_postgresql() -> bool:
    # Debian keeps the server's programs off PATH.
    return bool(shutil.which("postgres") or list(Path("/usr/lib/postgresql").glob("*/bin/postgres")))


def _bring(need: Need) -> bool:
    if need.is_here():
        return True
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    print(f"== installing {need.name}", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *need.packages]):
        done = subprocess.run([apt, *step], env=quiet, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            return False
    return need.is_here()


def _conclude(failed: list[str], missing: list[Need], started_at: float) -> int:
    print(f"== {time.monotonic() - started_at:.0f} s", flush=True)
    for need in missing:
        print(f"left out: {need.leaves_out}", flush=True)
    left_out = any(need.is_required for need in missing)
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    return 1 if failed or (left_out and os.environ.get("CI") == "true") else 0


CHROMIUM = Need(
    "Chromium",
    ("chromium", "fonts-liberation"),
    _has_chromium,
    "the browser tests: no Chromium here and none could be installed",
)
POSTGRESQL = Need(
    "PostgreSQL",
    ("postgresql",),
    _has_postgresql,
    "the tests on PostgreSQL: none here and none could be installed",
)
# The embedded server is of another family and knows no TLS.
REDIS = Need(
    "Redis",
    ("redis-server", "openssl"),
    lambda: bool(shutil.which("redis-server") and shutil.which("openssl")),
    "the tests on Redis itself and over TLS: no redis-server here and none could be installed",
)
# Where a machine forbids tracing, no package helps; the test says so itself.
STRACE = Need(
    "strace",
    ("strace",),
    lambda: shutil.which("strace") is not None,
    "the proof by system calls that the disk comes before the answer: no strace here",
    is_required=False,
)
NEEDS = (CHROMIUM, POSTGRESQL, REDIS, STRACE)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Does this checkout pass? Lint, types, import rules and every test, with what they need brought first.

What cannot run here is named at the end; with CI=true that is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main(arguments: list[str]) -> int:
    started_at = time.monotonic()
    failed = [name for name, command in _lints() if not _run(name, command)]
    if "--lint-only" in arguments:
        return _conclude(failed, [], started_at)
    left_out = (
        [] if _bring_chromium() else ["the browser tests: no Chromium here and none could be installed"]
    )
    command = [str(BIN / "python"), "-m", "pytest", *arguments]
    if left_out:
        command += ["-m", "not browser"]
    if not _run("pytest", command):
        failed.append("pytest")
    return _conclude(failed, left_out, started_at)


def _lints() -> list[tuple[str, list[str]]]:
    return [
        ("ruff", [str(BIN / "ruff"), "check", "."]),
        ("mypy", [str(BIN / "mypy")]),
        ("import rules", [str(BIN / "lint-imports"), "--no-cache"]),
    ]


def _run(name: str, command: list[str]) -> bool:
    print(f"== {name}", flush=True)
    return subprocess.run(command, cwd=ROOT, env=_environment(), stdin=subprocess.DEVNULL).returncode == 0


def _environment() -> dict[str, str]:
    """Nothing that this shell has set for its own installation may reach the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICEGATE_")}
    return {**kept, "PATH": f"{BIN}{os.pathsep}{kept.get('PATH', '')}"}


def _bring_chromium() -> bool:
    if any(shutil.which(name) for name in CHROMIUM_NAMES):
        return True
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    print("== installing Chromium", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (
        ["update", "-q"],
        ["install", "-q", "-y", "--no-install-recommends", "chromium", "fonts-liberation"],
    ):
        if (
            subprocess.run(
                [apt, *step], env=quiet, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            ).returncode
            != 0
        ):
            return False
    return any(shutil.which(name) for name in CHROMIUM_NAMES)


def _conclude(failed: list[str], left_out: list[str], started_at: float) -> int:
    print(f"== {time.monotonic() - started_at:.0f} s", flush=True)
    for reason in left_out:
        print(f"left out: {reason}", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    return 1 if failed or (left_out and os.environ.get("CI") == "true") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

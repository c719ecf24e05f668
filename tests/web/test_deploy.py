"""Does Django's own list of what a public site must have find nothing?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stack import ROOT, clean_environment


@pytest.mark.parametrize("origins", ["https://gate.example", ""], ids=["behind-tls", "on-loopback"])
def test_the_deployment_check_is_clean(tmp_path: Path, origins: str) -> None:
    settings = {"SLUICEGATE_DATA_DIR": str(tmp_path), "SLUICEGATE_TRUSTED_ORIGINS": origins}
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=clean_environment(settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout

"""Does one command make ready an installation whose processes are started one by one?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stack import ROOT, clean_environment
from workers.store import Store

pytestmark = pytest.mark.database


def start(data_dir: Path, redis_url: str, **settings: str) -> subprocess.Popen[str]:
    """On the tests' own PostgreSQL the database that no other test uses, else SQLite in the directory."""
    own = {"SLUICEGATE_DATA_DIR": str(data_dir), "SLUICEGATE_REDIS_URL": redis_url, **settings}
    if url := os.environ.get("SLUICEGATE_DATABASE_URL"):
        own.setdefault("SLUICEGATE_DATABASE_URL", url)
    return subprocess.Popen(
        [sys.executable, "manage.py", "prepare"],
        cwd=ROOT,
        env=clean_environment(own),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> dict[str, str]:
    """What it told, by the first word of each line."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return dict(line.split(None, 1) for line in out.splitlines())


def test_it_makes_what_is_missing_once_and_says_so(tmp_path: Path, store: Store, redis_url: str) -> None:
    """Two at once, as the replicas of a release start; then once more."""
    told = [said(process) for process in [start(tmp_path, redis_url) for _ in range(2)]]
    assert sum("steps of its tables made" in each["database"] for each in told) == 1
    assert sum(each["policies"] == "added critical, urgent, normal, bulk" for each in told) == 1
    assert sum("shown this once" in each["user"] for each in told) == 1
    assert sum("shown this once" in each["key"] for each in told) == 1
    assert (tmp_path / "operator_password").stat().st_mode & 0o777 == 0o600
    assert set(store.read_policies()) == {"critical", "urgent", "normal", "bulk"}
    assert store.read_modes()["*"]["mode"] == "normal"
    password = (tmp_path / "operator_password").read_text()
    again = said(start(tmp_path, redis_url))
    assert "up to date" in again.pop("database")
    assert again.pop("redis") == "has all that it needs"
    assert set(again.values()) == {"there already"}
    assert (tmp_path / "operator_password").read_text() == password


def test_without_redis_the_database_is_prepared_and_who_publishes_is_said(tmp_path: Path) -> None:
    told = said(start(tmp_path, f"unix://{tmp_path}/nobody.sock?db=0"))
    assert told["redis"].startswith("not reached (") and "the monitor publishes" in told["redis"]


def test_a_database_that_does_not_answer_is_one_line(tmp_path: Path, redis_url: str) -> None:
    nobody = f"postgresql://u@/d?host={tmp_path}&port=5"
    process = start(tmp_path, redis_url, SLUICEGATE_DATABASE_URL=nobody)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert out == "" and err.startswith("CommandError: the database cannot be prepared: ")
    assert len(err.strip().splitlines()) == 1

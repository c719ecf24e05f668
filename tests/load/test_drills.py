"""Can a drill write anywhere but into a file of its own in the data directory?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.tasks import drills
from workers.tasks.places import PathRefused, resolve_in


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    monkeypatch.setenv("SLUICEGATE_DATA_DIR", str(directory))
    return directory


def test_a_line_is_appended_each_time(data_dir: Path) -> None:
    drills.append("seen.txt", "one")
    drills.append("seen.txt", "two\n")
    assert (data_dir / "seen.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    "name",
    [
        "../a.txt",
        "/etc/passwd",
        "a/b.txt",
        "..",
        ".hidden",
        "",
        "a\x00b",
        "a.txt\n",
        "sluicegate.sqlite3",
        "a.sock",
        "a" * 80,
    ],
)
def test_a_name_that_is_more_than_a_name_is_refused(data_dir: Path, name: str) -> None:
    with pytest.raises(PathRefused):
        drills.append(name, "x")
    assert list(data_dir.iterdir()) == []


@given(name=st.text(max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_name_it_stays_directly_in_the_directory(tmp_path: Path, name: str) -> None:
    try:
        path = resolve_in(tmp_path, name)
    except PathRefused:
        return
    assert path.parent == tmp_path
    assert path.resolve().parent == tmp_path.resolve()


def test_the_installations_own_files_are_not_touched(data_dir: Path) -> None:
    (data_dir / "secret_key").write_text("secret")
    with pytest.raises(PathRefused):
        drills.append("secret_key", "x")
    assert (data_dir / "secret_key").read_text() == "secret"


def test_a_link_is_not_followed(data_dir: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (data_dir / "link.txt").symlink_to(outside)
    with pytest.raises(PathRefused):
        drills.append("link.txt", "x")
    (data_dir / "drills").mkdir()
    (data_dir / "drills" / "link.txt").touch()
    with pytest.raises(PathRefused):
        drills.append("link.txt", "x")
    assert outside.read_text() == "mine"


def test_a_removed_file_begins_anew(data_dir: Path) -> None:
    drills.append("seen.txt", "one")
    (data_dir / "seen.txt").unlink()
    drills.append("seen.txt", "two")
    assert (data_dir / "seen.txt").read_text() == "two\n"


def test_a_file_and_a_text_have_bounds(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="characters"):
        drills.append("seen.txt", "x" * (drills.MAX_TEXT + 1))
    monkeypatch.setattr(drills, "MAX_FILE_BYTES", 10)
    drills.append("seen.txt", "12345")
    with pytest.raises(ValueError, match="reached"):
        drills.append("seen.txt", "12345")


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e9])
def test_a_sleep_has_bounds(seconds: float) -> None:
    with pytest.raises(ValueError, match="between 0 and"):
        drills.sleep(seconds)


def test_a_drill_fails_with_the_message_it_was_given() -> None:
    with pytest.raises(drills.DrillFailed, match="as asked"):
        drills.fail("as asked")


@pytest.mark.parametrize(("value", "known"), [("1", True), ("0", False), ("", False), ("true", False)])
def test_drills_exist_only_where_they_are_switched_on(value: str, known: bool) -> None:
    program = (
        "from celery import Celery\n"
        "app = Celery(set_as_current=True)\n"
        "import workers.tasks\n"
        "app.finalize()\n"
        "print('drill.die' in app.tasks, 'images.thumbnail' in app.tasks)\n"
    )
    environment = {**os.environ, "SLUICEGATE_DRILLS": value, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(known), "True"]

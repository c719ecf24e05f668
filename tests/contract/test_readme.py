"""Does the README say what the code says?"""

from __future__ import annotations

import re
from pathlib import Path

from config.env import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_every_setting_stands_in_the_table_as_the_code_has_it() -> None:
    rows = re.findall(r"^\| `(SLUICEGATE_\w+)` \| (.*) \| (.*) \| (.*) \|$", README, re.MULTILINE)
    assert rows == [(s.name, s.default, s.unit, s.meaning) for s in SETTINGS.values()]


def test_every_folder_and_picture_that_it_names_is_there() -> None:
    for path in re.findall(r"\]\((docs/[^)]+)\)", README):
        assert (ROOT / path).is_file(), path
    for path in re.findall(r"^\| `([\w/]+)`", README, re.MULTILINE):
        if not path.startswith("SLUICEGATE"):
            assert (ROOT / path).is_dir(), path

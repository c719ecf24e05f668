"""Does every test exist that the table of faults says keeps what holds?"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
TABLE = (TESTS.parent / "docs" / "faults.md").read_text()


def test_every_test_that_it_names_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", TABLE)
    assert len(named) > 50
    for path, name in named:
        assert re.search(rf"^\s*(async )?def {name}\(", (TESTS / path).read_text(), re.MULTILINE), (
            f"{path}::{name}"
        )


def test_every_row_names_a_test() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ") and "|---" not in line][1:]
    assert all("::test_" in row for row in rows)

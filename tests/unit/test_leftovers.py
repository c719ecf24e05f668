"""What does a supervisor write down of its children, and what where it cannot?"""

from __future__ import annotations

import json
import os
from pathlib import Path

from workers.supervise.leftovers import Records


def test_a_full_disk_keeps_the_older_records_and_ends_nobody(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.note("web", os.getpid())
    draft = tmp_path / "run" / "children.draft"
    draft.symlink_to("/dev/full")  # each write to it finds no space left
    records.forget("web")
    assert set(json.loads((tmp_path / "run" / "children.json").read_text())) == {"web"}
    draft.unlink()
    records.forget("web")
    assert json.loads((tmp_path / "run" / "children.json").read_text()) == {}

"""What becomes of a child's lines where its log cannot be written?"""

from __future__ import annotations

from pathlib import Path

from workers.supervise.logs import ChildLog, RotatingFile


def test_a_full_disk_costs_lines_and_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    path.symlink_to("/dev/full")  # each write to it finds no space left
    said: list[str] = []
    log = ChildLog("web", path, say=said.append)
    for _ in range(3):
        log.feed(b"all is well\n")
    assert len(said) == 1
    assert said[0].startswith("web | its log is not kept: No space left on device")
    log.feed(b"2026 WARNING a thing\n")
    assert said[-1] == "web | 2026 WARNING a thing"
    log.close()


def test_a_log_whose_next_file_could_not_begin_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    file = RotatingFile(path)
    file.close()
    file.write(b"again\n")
    file.close()
    assert path.read_bytes() == b"again\n"


def test_what_is_written_again_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    path.symlink_to("/dev/full")
    said: list[str] = []
    log = ChildLog("web", path, say=said.append)
    log.feed(b"lost\n")
    path.unlink()
    log.close()  # the next write opens what is there now
    log.feed(b"kept\n")
    log.close()
    assert said[-1] == "web | its log is kept again"
    assert path.read_bytes() == b"kept\n"

"""What does a trace in the Standard Workload Format say of each job?

Fields, counted from 1: 2 submit time, 4 run time, 9 requested time (all in seconds), 13 group; -1 is
unknown. Lines beginning with ``;`` are the header. https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SUBMIT, _RUN, _REQUESTED, _GROUP = 1, 3, 8, 12


class TraceError(ValueError):
    """A line is not one of the format."""


@dataclass(frozen=True, slots=True)
class SwfJob:
    submit_s: float
    run_s: float | None
    requested_s: float | None
    group: int | None


def read_swf(path: Path) -> Iterator[SwfJob]:
    """Jobs of a file, packed with gzip or not, in its order."""
    is_packed = path.suffix == ".gz"
    with gzip.open(path, "rt", encoding="latin-1") if is_packed else path.open(encoding="latin-1") as lines:
        yield from parse_swf(lines)


def parse_swf(lines: Iterable[str]) -> Iterator[SwfJob]:
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(";"):
            continue
        fields = text.split()
        try:
            submit_s = float(fields[_SUBMIT])
            run_s, requested_s = _known(fields[_RUN]), _known(fields[_REQUESTED])
            group = _known(fields[_GROUP])
        except (ValueError, IndexError) as exc:
            raise TraceError(f"line {number} is not of the Standard Workload Format: {text[:60]!r}") from exc
        if submit_s < 0:
            raise TraceError(f"line {number}: the submit time is {submit_s:g}")
        yield SwfJob(submit_s, run_s, requested_s, None if group is None else int(group))


def _known(text: str) -> float | None:
    value = float(text)
    return None if value < 0 else value

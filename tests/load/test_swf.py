"""Is a trace read as its format says, and does it become the load that was meant?"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.flood.arrivals import arrive_from_trace, queue_of_requested
from workers.flood.swf import SwfJob, TraceError, parse_swf, read_swf

HEADER = "; Version: 2.2\n; Computer: none\n\n"


def line(submit: float = 0, run: float = 60, requested: float = 600, group: int = 3) -> str:
    return f"1 {submit} -1 {run} 1 -1 -1 -1 {requested} -1 -1 7 {group} -1 -1 1 -1 -1\n"


def test_a_packed_and_a_plain_file_say_the_same(tmp_path: Path) -> None:
    text = HEADER + line(5, 60, 600, 3) + line(9, -1, -1, -1)
    (tmp_path / "a.swf").write_text(text)
    with gzip.open(tmp_path / "a.swf.gz", "wt") as file:
        file.write(text)
    jobs = list(read_swf(tmp_path / "a.swf"))
    assert jobs == list(read_swf(tmp_path / "a.swf.gz"))
    assert jobs == [SwfJob(5, 60, 600, 3), SwfJob(9, None, None, None)]


@pytest.mark.parametrize("text", ["1 2 3\n", line().replace("600", "soon"), "<html>\n", line(submit=-1)])
def test_what_is_not_the_format_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(TraceError, match="line 4"):
        list(parse_swf((HEADER + text).splitlines(keepends=True)))


@pytest.mark.parametrize(
    ("requested_s", "queue"),
    [(None, "bulk"), (0, "urgent"), (1200, "urgent"), (1201, "normal"), (43200, "normal"), (43201, "bulk")],
)
def test_the_requested_time_chooses_the_queue(requested_s: float | None, queue: str) -> None:
    assert queue_of_requested(requested_s) == queue


def test_time_is_compressed_and_the_declared_cost_with_it() -> None:
    jobs = [SwfJob(0, 360, 720, 1), SwfJob(7200, 36_000_000, None, None), SwfJob(36_000, 1, 1, 1)]
    arrivals = list(arrive_from_trace(jobs, speedup=3600, service_scale=2, sleep_cap_s=5, limit_s=9))
    first, second = arrivals
    assert (first.at_s, first.tenant, first.queue, first.args, first.cost_ms) == (
        0,
        "group-1",
        "urgent",
        (0.2,),
        400,
    )
    assert (second.at_s, second.tenant, second.args, second.cost_ms) == (2, "unknown", (5,), None)


@given(
    st.lists(
        st.builds(
            SwfJob,
            st.floats(0, 1e7),
            st.none() | st.floats(0, 1e7),
            st.none() | st.floats(0, 1e7),
            st.none() | st.integers(0, 99),
        )
    ),
    st.floats(1, 1e5),
    st.floats(0.001, 100),
)
def test_every_job_becomes_one_that_a_worker_can_run(
    jobs: list[SwfJob], speedup: float, scale: float
) -> None:
    jobs.sort(key=lambda job: job.submit_s)
    arrivals = list(arrive_from_trace(jobs, speedup=speedup, service_scale=scale, sleep_cap_s=3))
    assert len(arrivals) == len(jobs)
    assert [arrival.at_s for arrival in arrivals] == sorted(arrival.at_s for arrival in arrivals)
    for arrival in arrivals:
        assert 0 <= arrival.args[0] <= 3
        assert arrival.cost_ms is None or arrival.cost_ms >= 1

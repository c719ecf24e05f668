"""Do the scoreboard's sums add up, whatever happens in whatever order?"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.flood.arrivals import Arrival
from workers.flood.doors import Answer
from workers.flood.run import Flood, Polite, Rude
from workers.flood.scoreboard import Scoreboard, format_scoreboard

ANSWERS = st.sampled_from(
    [
        Answer("accepted"),
        Answer("refused", "count", 1.0),
        Answer("refused", "mode", 1.0),
        Answer("failed", "unreachable"),
    ]
)


class FakeDoor:
    """Answers by script, the last one for ever; notes when each id was offered."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)
        self._lock = threading.Lock()
        self.offered: dict[str, list[float]] = {}

    def offer(self, arrival: Arrival, offer_id: str) -> Answer:
        with self._lock:
            self.offered.setdefault(offer_id, []).append(time.monotonic())
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self) -> None:
        pass


def arrivals(count: int, queue: str = "normal") -> list[Arrival]:
    return [Arrival(number / 1000, "drill.echo", queue, "a") for number in range(count)]


@given(st.lists(st.tuples(st.sampled_from(["urgent", "bulk"]), ANSWERS, st.floats(0, 1e6), st.booleans())))
def test_offers_are_the_sum_of_their_answers_for_each_queue_and_all(
    notes: list[tuple[str, Answer, float, bool]],
) -> None:
    board = Scoreboard()
    for queue, answer, latency_ms, is_first in notes:
        board.note_answer(queue, answer, latency_ms, late_ms=0, is_first=is_first)
    document = board.as_document()
    for row in [document, *document["queues"].values()]:
        assert row["offered"] == row["accepted"] + row["refused"] + row["failed"]
        assert row["refused"] == sum(row["refused_by"].values())
        assert row["failed"] == sum(row["failed_by"].values())
    for name in ("offered", "accepted", "refused", "failed"):
        assert document[name] == sum(row[name] for row in document["queues"].values())
    assert format_scoreboard(document)


def test_a_latency_is_shown_to_a_few_percent() -> None:
    board = Scoreboard()
    for milliseconds in range(1, 1001):
        board.note_answer("bulk", Answer("accepted"), milliseconds, late_ms=0, is_first=True)
    latency = board.as_document()["latency_ms"]["accepted"]
    assert latency["p50"] == pytest.approx(500, rel=0.06)
    assert latency["p99"] == pytest.approx(990, rel=0.06)
    assert board.as_document()["latency_ms"]["refused"]["p50"] is None


def test_polite_jobs_come_back_no_earlier_than_asked_until_all_are_accepted() -> None:
    door = FakeDoor([Answer("refused", "count", 0.2)] * 30 + [Answer("accepted")])
    flood = Flood(door, Polite(60, random.Random(1)), senders=3)
    flood.run(iter(arrivals(20)))
    document = flood.scoreboard.as_document()
    assert (document["jobs"], document["accepted"], document["refused"]) == (20, 20, 30)
    assert document["honoured_retry_afters"] == 30
    assert document["still_open"] == document["given_up"] == 0
    for times in door.offered.values():
        assert all(later - earlier >= 0.2 for earlier, later in itertools.pairwise(times))


def test_polite_jobs_are_given_up_when_patience_ends() -> None:
    flood = Flood(FakeDoor([Answer("refused", "count", 5.0)]), Polite(1, random.Random(1)), senders=1)
    flood.run(iter(arrivals(3)))
    document = flood.scoreboard.as_document()
    assert (document["offered"], document["given_up"], document["still_open"]) == (3, 3, 0)


def test_rude_jobs_take_no_advice() -> None:
    door = FakeDoor([Answer("refused", "count", 60.0)])
    flood = Flood(door, Rude(retries=2), senders=2)
    flood.run(iter(arrivals(5)))
    document = flood.scoreboard.as_document()
    assert (document["jobs"], document["offered"], document["honoured_retry_afters"]) == (5, 15, 0)
    assert document["given_up"] == 5


def test_a_stop_ends_it_with_the_sums_so_far() -> None:
    flood = Flood(FakeDoor([Answer("refused", "count", 60.0)]), Polite(1000, random.Random(1)), senders=1)
    threading.Timer(0.3, flood.stop).start()
    flood.run(iter(arrivals(4)))
    document = flood.scoreboard.as_document()
    assert (document["jobs"], document["offered"], document["still_open"]) == (4, 4, 4)


def test_a_slow_answer_does_not_delay_the_other_jobs() -> None:
    class Slow(FakeDoor):
        def offer(self, arrival: Arrival, offer_id: str) -> Answer:
            if arrival.queue == "bulk":
                time.sleep(0.5)
            return super().offer(arrival, offer_id)

    flood = Flood(Slow([Answer("accepted")]), Rude(), senders=4)
    flood.run(iter(sorted(arrivals(2, "bulk") + arrivals(50), key=lambda arrival: arrival.at_s)))
    rows = flood.scoreboard.as_document()["queues"]
    assert rows["normal"]["latency_ms"]["accepted"]["p99"] < 250
    assert rows["bulk"]["latency_ms"]["accepted"]["p50"] >= 450

"""Do huge bodies, results, texts and lists cost the web process little, and do they end?"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.waiting import wait_until

from .house import House, memory_of

MEGABYTE = 1 << 20
#: Largest list and longest answer that are promised.
LARGEST, LONGEST_S = 1_000_000, 2.0
#: Tries of what must be quick: a machine that does other things too may be slow once.
TRIES = 4


class Peak:
    """How much more memory the web process of ``house`` held at most, from beginning to end."""

    def __init__(self, house: House) -> None:
        self.pid = house.stack.child_pid("web")
        self.before = memory_of(self.pid)
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # forgets the peak so far

    def grown(self) -> int:
        with open(f"/proc/{self.pid}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
        return peak - self.before


def quickest(ask: Any) -> tuple[httpx.Response, float]:
    """The answer, and how long the quickest of some took."""
    took: list[float] = []
    for _ in range(TRIES):
        began = time.monotonic()
        answer = ask()
        took.append(time.monotonic() - began)
        if took[-1] < LONGEST_S:
            break
    return answer, min(took)


def endless(megabytes: int) -> Iterator[bytes]:
    for _ in range(megabytes * 16):
        yield b"x" * 65_536


def test_a_body_without_a_length_is_refused_while_it_arrives(house: House) -> None:
    """64 MB of it, by a client that would read the answer only at the end, four at a time."""
    house.http.get("/api/v1/queues")
    peak = Peak(house)

    def post(_: int) -> tuple[int, float]:
        answer, took_s = quickest(lambda: house.http.post("/api/v1/jobs", content=endless(64), headers={}))
        return answer.status_code, took_s

    with ThreadPoolExecutor(4) as hands:
        answers = list(hands.map(post, range(4)))
    print(answers, f"web +{peak.grown() / MEGABYTE:.1f} MB at most")
    assert [status for status, _ in answers] == [413] * 4
    assert min(took_s for _, took_s in answers) < LONGEST_S
    assert peak.grown() < 50 * MEGABYTE


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("brackets", b"[" * 1_048_576),
        ("braces", b'{"task":' * 131_072),
        ("digits", b'{"task": "drill.echo", "args": [' + b"9" * 1_000_000 + b"]}"),
        ("strings", b"[" + b'"",' * 300_000 + b'""]'),
        ("escapes", b'{"task": "' + b"\\ud800" * 170_000 + b'"}'),
        ("names", b"{" + b",".join(b'"%d":1' % n for n in range(90_000)) + b"}"),
    ],
)
def test_a_megabyte_that_is_no_job_is_refused_in_time(house: House, what: str, body: bytes) -> None:
    peak = Peak(house)
    headers = {"Content-Type": "application/json"}
    answer, took_s = quickest(lambda: house.http.post("/api/v1/jobs", content=body, headers=headers))
    print(what, answer.status_code, f"{took_s:.2f} s", f"web +{peak.grown() / MEGABYTE:.1f} MB at most")
    assert answer.status_code in (400, 413, 422)
    assert len(answer.content) < 2_000
    assert took_s < LONGEST_S
    assert peak.grown() < 50 * MEGABYTE


def push(stream: ClientConnection) -> None:
    for _ in range(8):
        stream.send(b"x" * 8_000_000)
        stream.recv(timeout=10)


def test_what_a_reader_of_the_stream_sends_is_not_held(house: House) -> None:
    address = house.stack.base_url.replace("http", "ws", 1) + "/ws/live"
    headers = {"Authorization": f"Bearer {house.stack.api_key}"}
    peak = Peak(house)
    for _ in range(4):
        with (
            connect(address, additional_headers=headers, proxy=None, compression=None) as stream,
            pytest.raises((ConnectionClosed, OSError)),
        ):
            push(stream)
    print(f"web +{peak.grown() / MEGABYTE:.1f} MB at most")
    assert peak.grown() < 20 * MEGABYTE


def test_slow_bodies_hold_up_nobody(house: House) -> None:
    """Forty clients that send a byte and wait; another is served."""
    head = (
        "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {house.stack.api_key}\r\nContent-Length: 1000000\r\n\r\n{{"
    )
    slow = []
    try:
        for _ in range(40):
            slow.append(socket.create_connection(("127.0.0.1", house.stack.port), timeout=5))
            slow[-1].sendall(head.encode())
        answer, took_s = quickest(lambda: house.post("drill.echo", 1, queue="critical"))
        assert (answer.status_code, took_s < LONGEST_S) == (202, True)
    finally:
        for connection in slow:
            connection.close()


def test_lists_stay_small_and_quick_however_long_their_texts_are(house: House) -> None:
    """Results of 50 MB, errors of 5 MB, and the longest texts that are taken, each character of six bytes."""
    queue = house.make_queue(lease_s=10, max_bytes=64 << 20)
    house.start_worker(queue)
    before = house.row(queue)["bytes"]
    wide, tags = "\u0800" * 2_000, ["\u0800" * 98 + f"{n:02}" for n in range(20)]
    jobs: list[dict[str, Any]] = [
        {"task": "drill.fail", "args": [wide + str(n)], "queue": queue, "tags": tags} for n in range(120)
    ]
    house.submit_until_taken(jobs[:60])
    house.submit_until_taken(jobs[60:])
    ids = house.submit_many(
        [{"task": "field.give", "args": ["50 MB"], "queue": queue}]
        + [{"task": "field.throw", "args": ["5 MB"], "queue": queue}] * 5
    )

    def change_mode(number: int) -> None:
        mode = ("saturated", "normal")[number % 2]
        house.http.put("/api/v1/mode", json={"mode": mode, "queue": queue, "reason": wide}).raise_for_status()

    for number in range(100):
        change_mode(number)
    house.await_ends(ids, within_s=120)
    held = {"queue": queue, "limit": 1}
    wait_until(
        lambda: house.admin.get("/api/v1/quarantine", params=held).json()["count"] == 125,
        within_s=60,
        what="all that failed to be held",
    )
    peak = Peak(house)
    for path in (
        "/queues",
        f"/jobs/{ids[0]}",
        f"/jobs/{ids[1]}",
        f"/quarantine/{ids[1]}",
        "/quarantine?limit=200",
        "/quarantine?limit=200&search=field",
        "/journal?limit=200",
        "/transitions?limit=200",
        "/alerts?limit=200",
        "/tenants",
        "/workers",
        "/batches?limit=100",
        "/history?all=1",
    ):
        answer, took_s = quickest(lambda path=path: house.admin.get(f"/api/v1{path}"))
        print(path, len(answer.content), f"{took_s:.2f} s")
        assert answer.status_code == 200, path
        assert len(answer.content) < LARGEST, (path, len(answer.content))
        assert took_s < LONGEST_S, (path, took_s)
    print(f"web +{peak.grown() / MEGABYTE:.1f} MB at most")
    assert peak.grown() < 50 * MEGABYTE
    # What did not fit is the next page, and none is left out or shown twice.
    for path, name, least in (("quarantine", "jobs", 125), ("journal", "entries", 100)):
        seen: list[Any] = []
        before_row: int | None = None
        while True:
            params = {"queue": queue, "limit": 200, **({"before": before_row} if before_row else {})}
            page = house.admin.get(f"/api/v1/{path}", params=params).json()
            seen += [row["id"] for row in page[name]]
            if not (before_row := page["next_before"]):
                break
        assert len(seen) == len(set(seen)) >= least
    wait_until(
        lambda: house.row(queue)["bytes"] == before == 0, within_s=10, what="the bytes to be as before"
    )
    assert os.path.getsize(house.stack.data_dir / "sluicegate.sqlite3") < 64 * MEGABYTE

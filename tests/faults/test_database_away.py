"""What does the gate notice of a database that is locked, gone or frozen? Nothing, and no job is lost."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.stack import Stack
from tests.support.waiting import wait_until
from workers.store import Store

pytestmark = pytest.mark.slow

JOBS = 12
ANSWERED_WITHIN_S = 2.0
Outage = Callable[[], Any]


@contextmanager
def sqlite_locked(stack: Stack) -> Iterator[None]:
    """Another program holds the write lock, as a backup or a forgotten shell does."""
    other = sqlite3.connect(stack.data_dir / "sluicegate.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


@contextmanager
def postgres_stopped(server: PostgresServer) -> Iterator[None]:
    server.stop()
    yield
    server.start()


@contextmanager
def postgres_frozen(server: PostgresServer) -> Iterator[None]:
    server.freeze()
    yield
    server.resume()


@contextmanager
def postgres_table_locked(server: PostgresServer) -> Iterator[None]:
    with psycopg.connect(server.url) as other:
        other.execute("LOCK TABLE workers_quarantinedjob, workers_apikey IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.fixture(params=["sqlite locked", "postgres stopped", "postgres frozen", "postgres table locked"])
def stack_and_outage(request: pytest.FixtureRequest, gate_up: Callable[..., Stack]) -> tuple[Stack, Outage]:
    if request.param == "sqlite locked":
        stack = gate_up()
        return stack, lambda: sqlite_locked(stack)
    server: PostgresServer = request.getfixturevalue("postgres")
    outages = {
        "stopped": postgres_stopped,
        "frozen": postgres_frozen,
        "table locked": postgres_table_locked,
    }
    outage = outages[request.param.removeprefix("postgres ")]
    return gate_up(SLUICEGATE_DATABASE_URL=server.url), lambda: outage(server)


def test_the_gate_goes_on_and_the_recorder_catches_up(stack_and_outage: tuple[Stack, Outage]) -> None:
    stack, outage = stack_and_outage
    store = Store.from_url(stack.redis_url)
    # The outage before this one may not be over for the web yet.
    before = wait_until(lambda: (held_count(stack),), within_s=60, what="the database to be asked")[0]
    client = stack.client()
    with outage():
        slowest = 0.0
        ids, good = [], []
        for number in range(JOBS):
            for task, into in (("drill.fail", ids), ("drill.echo", good)):
                began = time.monotonic()
                answer = client.post("/api/v1/jobs", json={"task": task, "args": [f"n{number}"]})
                slowest = max(slowest, time.monotonic() - began)
                assert answer.status_code == 202, answer.text
                into.append(answer.json()["operation_id"])
            time.sleep(0.15)  # long enough for the keys known to be asked for again
        assert slowest < ANSWERED_WITHIN_S
        for ids_, status in ((ids, "failed"), (good, "succeeded")):
            wait_until(
                lambda ids_=ids_, status=status: all(status_of(store, i) == status for i in ids_),
                what=f"all to be {status}",
            )
        frame = wait_until(lambda: told_of_database(store), what="the frame to say it")
        assert frame["database"]["state"] in ("away", "unwritable", "slow")
        notice = next(n for n in frame["notices"] if n["kind"] == "database")
        assert "The gate goes on without it" in notice["text"]
        assert -1_000 <= frame["at_ms"] - notice["since_at_ms"] < 60_000  # by two clocks
        assert store.snapshot()["quarantine_spool"]["count"] == JOBS
        seq = frame["seq"]
        wait_until(lambda: read_frame(store)["seq"] >= seq + 2, within_s=15, what="frames to go on")
        assert httpx.get(f"{stack.base_url}/healthz", timeout=1, trust_env=False).status_code == 200
        ready = httpx.get(f"{stack.base_url}/readyz", timeout=2, trust_env=False)
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
        began = time.monotonic()
        page = httpx.get(f"{stack.base_url}/login/", timeout=ANSWERED_WITHIN_S, trust_env=False)
        assert page.status_code in (200, 503)
        assert page.status_code == 200 or "The database has not answered since" in page.text
        assert time.monotonic() - began < ANSWERED_WITHIN_S
    wait_until(lambda: held_count(stack) == before + JOBS, within_s=60, what="the recorder to catch up")
    wait_until(
        lambda: store.snapshot()["quarantine_spool"]["count"] == 0, within_s=60, what="the spool to be empty"
    )
    wait_until(
        lambda: read_frame(store)["database"]["state"] == "ok" and not read_frame(store)["notices"],
        within_s=60,
        what="the database to be well again",
    )
    held = stack.get("/api/v1/quarantine?limit=200")["jobs"]
    assert sorted(job["id"] for job in held if job["id"] in ids) == sorted(ids)  # each of them, once
    store.client.close()
    client.close()


def read_frame(store: Store) -> dict[str, Any]:
    text = store.read_frame()
    assert text is not None
    frame: dict[str, Any] = json.loads(text)
    return frame


def told_of_database(store: Store) -> dict[str, Any] | None:
    frame = read_frame(store)
    return frame if frame["database"]["state"] not in ("ok", "unknown") else None


def status_of(store: Store, operation_id: str) -> str:
    operation = store.read_operation(operation_id)
    return operation.status if operation else "none"


def held_count(stack: Stack) -> int:
    return int(stack.get("/api/v1/quarantine?limit=1")["count"])

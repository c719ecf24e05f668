"""What does the door say, and how soon, in each state that a Redis can be in? And does it open by itself?"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from queues_ui.queries.reach import breaker
from tests.support.servers import RedisServer
from tests.support.waiting import wait_until
from workers.actions import bootstrap
from workers.actions.note_loss import newest_loss
from workers.exceptions import StoreUnavailable
from workers.loops.frame.inputs import DatabaseFacts
from workers.loops.historian import Historian
from workers.loops.losses import Losses
from workers.loops.sampler import Sampler
from workers.models import JournalEntry, Sample
from workers.store import Store

ANSWERED_WITHIN_S = 2.0
JOB = {"task": "drill.echo", "args": ["x"], "queue": "normal"}
LIMITED = pytest.mark.skipif(
    sys.platform != "linux", reason="limits another process's files, which only Linux does"
)


@pytest.fixture(scope="module")
def own_server(short_dir: Path) -> Iterator[RedisServer]:
    """A server to be ill-treated; it comes back with what it held."""
    settings = {"repl-diskless-sync-delay": "0", "loading-process-events-interval-bytes": "1024"}
    settings["rdbcompression"] = "no"
    server = RedisServer(short_dir / "conditions", settings=settings)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis_url(own_server: RedisServer) -> str:
    """Takes the place of the common server's, for the fixtures of this folder."""
    if not own_server.answers():
        own_server.start()
    with Store.from_url(own_server.url()).client as client:
        client.flushall()
    return own_server.url()


@contextmanager
def admin(server: RedisServer) -> Iterator[Any]:
    with Store.from_url(server.url()).client as client:
        yield client


@contextmanager
def stopped(server: RedisServer) -> Iterator[None]:
    server.stop()
    yield
    server.start()


@contextmanager
def frozen(server: RedisServer) -> Iterator[None]:
    server.freeze()
    yield
    server.resume()


@contextmanager
def loading(server: RedisServer) -> Iterator[None]:
    """A file that takes seconds to load: the server takes connections and answers LOADING."""
    with admin(server) as client:
        client.mset({f"padding:{number}": "x" * 2048 for number in range(200)})
        client.bgrewriteaof()
        wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
        wait_until(lambda: not client.info("persistence")["aof_rewrite_scheduled"])
    server.stop()
    plain = server.configuration.read_text()
    server.configuration.write_text(plain + "key-load-delay 30000\n")
    server.start(until_it_answers=False)
    wait_until(lambda: says_loading(server), what="the server to say LOADING")
    yield
    server.configuration.write_text(plain)
    with admin(server) as client:
        wait_until(lambda: client.config_set("key-load-delay", 0))
        wait_until(server.answers, within_s=20, what="the file to be loaded")
        client.delete(*[f"padding:{number}" for number in range(200)])


def says_loading(server: RedisServer) -> bool:
    store = Store.from_url(server.url())
    try:
        store.size("normal")
    except StoreUnavailable as fault:
        return fault.reason == "loading"
    finally:
        store.client.close()
    return False


@contextmanager
def append_only_file_full(server: RedisServer) -> Iterator[None]:
    """The disk takes no more of the file (EFBIG in place of ENOSPC), while the server runs on."""
    assert server.process is not None
    pid, unlimited = server.process.pid, resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    with admin(server) as client:
        size = max(path.stat().st_size for path in server.directory.glob("appendonlydir/*.incr.aof"))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + 10, unlimited[1]))
        client.set("padding:0", "x" * 100)
        wait_until(lambda: client.info("persistence")["aof_last_write_status"] == "err")
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)


@contextmanager
def snapshot_failing(server: RedisServer) -> Iterator[None]:
    """Where snapshots are on and fail, Redis refuses writes (stop-writes-on-bgsave-error)."""
    with admin(server) as client:
        (server.directory / "dump.rdb").mkdir()  # where the new file must go
        client.config_set("save", "3600 1")
        client.bgsave()
        wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
        yield
        (server.directory / "dump.rdb").rmdir()
        client.bgsave()
        wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "ok")
        client.config_set("save", "")
        (server.directory / "dump.rdb").unlink()


@contextmanager
def a_replica(server: RedisServer) -> Iterator[None]:
    with admin(server) as client:
        client.replicaof("127.0.0.1", 1)
        yield
        client.replicaof("NO", "ONE")


@contextmanager
def out_of_memory(server: RedisServer) -> Iterator[None]:
    with admin(server) as client:
        client.config_set("maxmemory", 1)
        yield
        client.config_set("maxmemory", 256 << 20)


@contextmanager
def password_rotated(server: RedisServer) -> Iterator[None]:
    """The server has a new password, and connections are made anew: ours is the old one (none)."""
    with admin(server) as client:
        client.config_set("requirepass", "new")
        client.execute_command("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES")
        yield
        client.config_set("requirepass", "")


CONDITIONS: list[Any] = [
    pytest.param(stopped, "down", id="stopped"),
    pytest.param(frozen, "timeout", id="paused"),
    pytest.param(loading, "loading", id="loading"),
    pytest.param(append_only_file_full, "readonly", id="append-only file full", marks=LIMITED),
    pytest.param(snapshot_failing, "readonly", id="snapshots failing"),
    pytest.param(a_replica, "readonly", id="a replica"),
    pytest.param(out_of_memory, "full", id="out of memory"),
    pytest.param(password_rotated, "auth", id="password rotated"),
]


class Watch:
    """A sampler as the monitor has it: what it would show of Redis."""

    def __init__(self, store: Store) -> None:
        self.sampler = Sampler(
            store, installation="test", broadcast=lambda text: None, facts=lambda: DatabaseFacts()
        )

    def health(self) -> dict[str, Any]:
        try:
            self.sampler.tick()
        except StoreUnavailable:
            pass
        return self.sampler.health


@pytest.mark.parametrize(("condition", "word"), CONDITIONS)
def test_the_door_says_no_in_time_and_opens_by_itself(
    own_server: RedisServer,
    gate: Store,
    api: Any,
    condition: Callable[[RedisServer], AbstractContextManager[None]],
    word: str,
) -> None:
    watch = Watch(gate)
    assert watch.health()["state"] == "ok"
    assert api.post("/jobs", JOB).status_code == 202
    began_ms = gate.clock.now_ms()
    with condition(own_server):
        for _ in range(5):
            asked = time.monotonic()
            answer = api.post("/jobs", JOB)
            assert time.monotonic() - asked < ANSWERED_WITHIN_S
            assert (answer.status_code, answer.json()["why"]) == (503, word)
            assert int(answer["Retry-After"]) >= 1
        told = watch.health()
        assert told["state"] == word
        assert abs(told["since_at_ms"] - began_ms) < 20_000
        time.sleep(0.6)  # the breaker lets one through to look
        ready = Client().get("/readyz")
        assert (ready.status_code, ready.json()["redis"]) == (503, word)
        assert Client().get("/healthz").status_code == 200
    accepted = wait_until(lambda: is_accepted(api), within_s=10, what="the door to open again")
    assert accepted
    assert gate.size("normal") == 2, "what was refused is not stored, what was accepted is"
    assert wait_until(lambda: watch.health()["state"] == "ok", what="the sampler to say so")
    assert Client().get("/readyz").status_code == 200


def is_accepted(api: Any) -> bool:
    answer = api.post("/jobs", JOB)
    assert answer.status_code in (202, 503)
    return bool(answer.status_code == 202)


def test_a_slow_redis_still_accepts_in_time(own_server: RedisServer, gate: Store, api: Any) -> None:
    assert api.post("/jobs", JOB).status_code == 202
    with admin(own_server) as client:
        client.execute_command("CLIENT", "PAUSE", 600, "ALL")
        asked = time.monotonic()
        assert api.post("/jobs", JOB).status_code == 202
        assert 0.3 < time.monotonic() - asked < ANSWERED_WITHIN_S
    assert gate.size("normal") == 2


def test_a_server_that_forgot_the_scripts_is_given_them(
    own_server: RedisServer, gate: Store, api: Any
) -> None:
    for _ in range(2):
        with admin(own_server) as client:
            client.script_flush()
        assert api.post("/jobs", JOB).status_code == 202
    assert len(gate.claim("w@h", ["normal"], 2)) == 2


@pytest.mark.parametrize(
    "monitor_runs", [True, False], ids=["seen by the monitor", "found at its next start"]
)
def test_what_was_lost_with_the_data_is_told_to_be_lost(
    own_server: RedisServer, gate: Store, api: Any, monitor_runs: bool
) -> None:
    lost_id = api.post("/jobs", JOB).json()["operation_id"]
    assert api.get(f"/jobs/{lost_id}").status_code == 200
    losses, historian = Losses(), Historian()
    sampler = Sampler(
        gate,
        installation="test",
        broadcast=lambda text: None,
        facts=lambda: DatabaseFacts(loss=newest_loss()),
        listeners=(historian.hear,),
        compare=losses.compare,
    )
    sampler.tick()
    historian.tick()
    with admin(own_server) as client:
        client.flushall()  # as a SHUTDOWN NOSAVE without a file would
    if monitor_runs:
        sampler.tick()
        losses.write()
    bootstrap.restore_gate(gate)
    sampler.tick()
    assert sampler.frame is not None
    (notice,) = [n for n in sampler.frame["notices"] if n["kind"] == "lost"]
    assert "When last seen, 1 jobs waited" in notice["text"]
    assert abs(notice["since_at_ms"] - gate.clock.now_ms()) < 20_000
    assert JournalEntry.objects.filter(verb="data_lost").count() == 1
    told = api.get(f"/jobs/{lost_id}")
    assert (told.status_code, told.json()["data_lost_at_ms"]) == (404, notice["since_at_ms"])
    assert "is lost if it is not known here" in told.json()["detail"]
    assert api.post("/jobs", JOB).status_code == 202
    assert gate.size("normal") == 1


def test_another_redis_is_not_taken_for_one_that_lost_its_data(
    gate: Store, own_server: RedisServer, settings: Any
) -> None:
    bootstrap.restore_gate(gate)  # as at a first start
    Sample.objects.create(
        step_s=1, at_ms=gate.clock.now_ms() - 60_000, data={"queues": {"normal": {"depth": 3}}}
    )
    there = settings.SLUICEGATE_REDIS_URL
    settings.SLUICEGATE_REDIS_URL = "redis://user:secret@elsewhere:6379/0"
    with admin(own_server) as client:
        client.flushall()  # what another server knows of this gate
    bootstrap.restore_gate(gate)
    assert not JournalEntry.objects.filter(verb="data_lost").exists()
    named = JournalEntry.objects.filter(verb="watch_redis").latest("id")
    assert named.target == "redis://elsewhere:6379/0 gate main"
    assert named.before is not None and there.partition("?")[0] in named.before["redis"]
    with admin(own_server) as client:
        client.flushall()
    bootstrap.restore_gate(gate)
    assert JournalEntry.objects.filter(verb="data_lost").count() == 1


def test_a_first_start_has_lost_nothing(gate: Store, api: Any) -> None:
    assert not JournalEntry.objects.filter(verb="data_lost").exists()
    unknown = api.get("/jobs/never-heard-of")
    assert unknown.status_code == 404 and "data_lost_at_ms" not in unknown.json()


def test_a_new_password_opens_after_a_restart_with_it(own_server: RedisServer, gate: Store) -> None:
    with password_rotated(own_server):
        with pytest.raises(StoreUnavailable) as told:
            gate.size("normal")
        assert told.value.reason == "auth"
        renewed = Store.from_url(f"unix://:new@{own_server.socket_path}?db=0")
        assert renewed.size("normal") == 0
        renewed.client.close()
        wrong = Store.from_url(f"unix://:old@{own_server.socket_path}?db=0")
        with pytest.raises(StoreUnavailable) as told:
            wrong.size("normal")
        assert told.value.reason == "auth"
        wrong.client.close()
    breaker.close()

"""Is the boundary that an acceptance names the one in force? On real servers, by their system calls."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.servers import RedisServer
from tests.support.waiting import wait_until
from workers.store import Offer, Store

ADMITS = 25
Servers = Callable[..., RedisServer]


@pytest.fixture
def servers(short_dir: Path, request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Starts servers of this test's own, each in a directory of its own."""
    started: list[RedisServer] = []
    home = short_dir / f"x{abs(hash(request.node.nodeid)) % 10**6}"

    def start(name: str, **more: object) -> RedisServer:
        server = RedisServer(home / name, **more)  # type: ignore[arg-type]
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


def offer(number: int) -> Offer:
    return Offer(id=f"j{number}", task="t", queue="normal", payload=b'{"b":"W10=","h":{},"p":{}}')


def open_store(server: RedisServer, **more: int) -> Store:
    store = Store.from_url(server.url(), **more)  # type: ignore[arg-type]
    store.publish_policy("normal", {"weight": 1, "max_count": 1000}, version=1)
    return store


def test_the_boundary_follows_the_server_and_not_the_wish(servers: Servers) -> None:
    store = open_store(servers("a", durability="always"))
    assert store.read_durability() == store.health()["durability"] == "always"
    for setting, boundary in (("everysec", "everysec"), ("no", "memory")):
        store.client.config_set("appendfsync", setting)
        assert store.read_durability() == boundary
    store.client.config_set("appendonly", "no")
    assert store.read_durability() == store.health()["durability"] == "memory"
    store.client.close()


def test_a_server_that_does_not_say_is_called_unknown(servers: Servers) -> None:
    store = open_store(servers("a", durability="always"))
    store.client.execute_command("ACL", "SETUSER", "default", "-config")
    assert store.read_durability() == "unknown"
    assert store.health()["state"] == "ok"
    store.client.close()


def test_a_copy_is_named_only_where_a_replica_has_it(servers: Servers) -> None:
    primary = servers("p", with_port=True, settings={"repl-diskless-sync-delay": "0"})
    replica = servers("r", with_port=True, settings={"replicaof": f"127.0.0.1 {primary.port}"})
    store = open_store(primary, wait_replicas=1)
    with Store.from_url(replica.url()).client as copy:
        wait_until(lambda: copy.info("replication")["master_link_status"] == "up", what="a first copy")
        wait_until(lambda: store.health()["replicas"] == 1, what="the replica to follow")
        assert store.admit([offer(0)])[0].durability == "replica"
        assert copy.hexists(store.root + "ops", "j0")
    replica.freeze()
    began = time.monotonic()
    verdict = store.admit([offer(1)])[0]
    assert time.monotonic() - began < 1.0
    # What a time-out after the acceptance means: accepted it is, on the primary alone.
    assert verdict.accepted and verdict.durability is None
    assert store.read_operation("j1") is not None
    store.publish_policy("normal", {"weight": 1, "max_count": 2}, version=2)
    took_s = []
    for number in (2, 3, 4):
        began = time.monotonic()
        assert not store.admit([offer(number)])[0].accepted
        took_s.append(time.monotonic() - began)
    assert min(took_s) < 0.3  # a refusal waits for nobody
    replica.resume()
    store.publish_policy("normal", {"weight": 1, "max_count": 9}, version=3)
    assert wait_until(lambda: store.admit([offer(int(time.time() * 1000))])[0].durability == "replica")
    assert store.admit([offer(1)])[0].duplicate_of == "j1"  # known already: nothing to wait for
    store.client.close()


def test_admitting_without_a_replica_costs_its_wait_and_loses_nothing(servers: Servers) -> None:
    store = open_store(servers("a"), wait_replicas=1)
    verdict = store.admit([offer(1)])[0]
    assert (verdict.accepted, verdict.durability) == (True, None)
    assert store.size("normal") == 1
    store.client.close()


# By system calls: kill -9 proves nothing, since what a process wrote survives it in the page cache.


def why_no_trace() -> str:
    strace = shutil.which("strace")
    if strace is None:
        return "no strace on this machine; `make test` installs it where it may"
    tried = subprocess.run([strace, "-f", "-e", "trace=write", "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"this machine forbids ptrace: {tried.stderr.strip()[:200]}"


CALL = re.compile(
    r"^(?P<pid>\d+) +(?P<name>write|writev|sendto|sendmsg|fdatasync|fsync)\((?P<fd>\d+)<(?P<path>[^>]*)"
)
RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. (?P<name>\w+) resumed>")


def read_trace(text: str) -> list[str]:
    """What the server did, in the order in which it ended: append, sync, reply."""
    events, unfinished = [], {}
    for line in text.splitlines():
        found = CALL.match(line)
        if found:
            path, name = found["path"], found["name"]
            if "appendonly" in path and "incr" in path:
                event = "sync" if name in ("fdatasync", "fsync") else "append"
            elif path.startswith(("UNIX", "socket")) and name not in ("fdatasync", "fsync"):
                event = "reply"
            else:
                continue
            if "<unfinished" in line:
                unfinished[found["pid"]] = event
            elif "= -1" not in line:
                events.append(event)
        elif (again := RESUMED.match(line)) and again["pid"] in unfinished:
            events.append(unfinished.pop(again["pid"]))
    return events


@pytest.mark.parametrize("durability", ["always", "everysec"])
def test_the_disk_comes_before_the_answer_where_the_name_says_so(servers: Servers, durability: str) -> None:
    why = why_no_trace()
    if why:
        pytest.skip(why)
    server = servers(
        "t",
        durability=durability,
        under=["strace", "-f", "-y", "-qq", "-o", "/dev/stderr", "-e", "signal=none", "-e",
               "trace=write,writev,sendto,sendmsg,fdatasync,fsync"],
    )  # fmt: skip
    store = open_store(server)
    assert store.read_durability() == durability
    store.admit([offer(10_000)])  # what is loaded and made once
    store.client.echo("from here")
    for number in range(ADMITS):
        assert store.admit([offer(number)])[0].accepted
    store.client.echo("to here")
    store.client.shutdown(nosave=True)  # killing the tracer would set the server free
    store.client.close()
    assert server.process is not None
    server.process.wait(10)
    wait_until(lambda: "to here" in (server.directory / "log").read_text(errors="replace"))
    text = (server.directory / "log").read_text(errors="replace")
    events = read_trace(text.split("from here", 1)[1].split("to here", 1)[0])
    replies, appends, syncs = (events.count(kind) for kind in ("reply", "append", "sync"))
    assert replies >= ADMITS and appends
    if durability == "everysec":
        # Each answer was waited for before the next offer: fewer syncs than answers leave some without one.
        # (The appends may be fewer too: the server puts a write off while a sync of before is under way.)
        assert syncs < ADMITS, "everysec is not told apart from always by this trace"
        return
    early, dirty = 0, False
    for event in events:
        if event == "reply":
            early += dirty
        else:
            dirty = event == "append"
    assert appends >= ADMITS and syncs >= ADMITS
    assert early == 0, f"{early} of {replies} answers came before their sync"

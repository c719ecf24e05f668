"""Is an address that asks too often sent away before anything is read, and is a proxy not taken for one?"""

from __future__ import annotations

import json
from ipaddress import ip_network
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from config.env import WrongSetting, read_environment
from queues_ui.access.address_limit import AddressLimit, Buckets, bucket_of, real_address

PROXIES = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    buckets = Buckets(rate=10, burst=3)
    assert [buckets.wait_s("a", 100.0) == 0 for _ in range(5)] == [True] * 3 + [False] * 2
    assert buckets.wait_s("a", 100.0) == pytest.approx(0.1)
    assert buckets.wait_s("b", 100.0) == 0
    assert [buckets.wait_s("a", 100.1) == 0 for _ in range(2)] == [True, False]
    assert [buckets.wait_s("a", 200.0) == 0 for _ in range(4)] == [True] * 3 + [False]


def test_the_table_is_bounded_and_forgets_who_was_silent_longest() -> None:
    buckets = Buckets(rate=1, burst=1, most=100)
    assert buckets.wait_s("first", 0.0) == 0
    for number in range(1000):
        assert buckets.wait_s(f"a{number}", 0.0) == 0
    assert len(buckets) == 100
    assert buckets.wait_s("first", 0.0) == 0
    assert buckets.wait_s("a999", 0.0) > 0


def test_no_rate_is_no_limit() -> None:
    buckets = Buckets(rate=0, burst=1)
    assert not any(buckets.wait_s("a", 0.0) for _ in range(100))
    assert len(buckets) == 0


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # nobody we trust says so
        ("10.0.0.2", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.2", "1.2.3.4, 198.51.100.1", "198.51.100.1"),  # the client wrote the first one
        ("10.0.0.2", "1.2.3.4, 198.51.100.1, 10.9.9.9", "198.51.100.1"),  # two proxies of ours
        ("10.0.0.2", "not-an-address", "10.0.0.2"),
        ("10.0.0.2", "", "10.0.0.2"),
        ("fd00::1", "2001:db8::5", "2001:db8::5"),
        ("::ffff:10.0.0.2", "198.51.100.1", "198.51.100.1"),
    ],
)
def test_only_a_trusted_proxy_is_believed(peer: str, forwarded: str, address: str) -> None:
    assert real_address(peer, forwarded, PROXIES) == address


def test_a_line_with_many_addresses_is_one_address() -> None:
    assert bucket_of("2001:db8::1") == bucket_of("2001:db8::ffff:2") != bucket_of("2001:db8:0:1::1")
    assert bucket_of("::ffff:192.0.2.1") == bucket_of("192.0.2.1") != bucket_of("192.0.2.2")


class Door:
    """An application that notes who asked; nothing else of it may run for who is sent away."""

    def __init__(self, **about: Any) -> None:
        self.asked: list[str] = []
        self.edge = AddressLimit(self.application, now_s=lambda: 0.0, **about)

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["client"][0] if scope["client"] else "")
        await send({"type": "http.response.start", "status": 200, "headers": []})

    def ask(
        self, peer: str = "203.0.113.9", path: str = "/api/v1/jobs", **about: Any
    ) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def receive() -> dict[str, Any]:
            raise AssertionError("the body was read")

        scope = {"type": "http", "path": path, "client": (peer, 1), "headers": [], **about}
        async_to_sync(self.edge)(scope, receive, send)
        return sent


def test_who_asks_too_often_is_told_when_to_come_back_and_nothing_runs() -> None:
    door = Door(rate=0.1, burst=2)
    assert [door.ask()[0]["status"] for _ in range(3)] == [200, 200, 429]
    start, body = door.ask()
    headers, told = dict(start["headers"]), json.loads(body["body"])
    assert (told["reason"], told["status"], told["type"]) == ("rate", 429, "urn:sluicegate:problem:rate")
    assert headers[b"content-type"] == b"application/problem+json"
    assert int(headers[b"retry-after"]) == told["retry_after_s"] == 10
    assert headers[b"ratelimit"] == b'"address";r=0;t=10'
    assert headers[b"ratelimit-policy"] == b'"address";q=2;qu="requests";w=20'
    assert len(door.asked) == 2
    assert door.ask("203.0.113.10")[0]["status"] == 200
    assert door.ask(path="/healthz")[0]["status"] == 200
    assert door.ask(type="websocket")[0] == {"type": "websocket.close", "code": 4429}


def test_behind_a_proxy_each_client_has_its_own_and_the_rest_of_the_door_sees_it() -> None:
    door = Door(rate=1, burst=1, trusted=PROXIES)

    def through(client: str) -> int:
        headers = [(b"x-forwarded-for", client.encode())]
        status: int = door.ask("10.0.0.2", headers=headers)[0]["status"]
        return status

    assert [through("198.51.100.1"), through("198.51.100.1"), through("198.51.100.2")] == [200, 429, 200]
    assert through("9.9.9.9, 198.51.100.1") == 429  # an invented first one helps nobody
    assert door.asked == ["198.51.100.1", "198.51.100.2"]


def test_the_settings_say_what_is_wrong(tmp_path: Any) -> None:
    environ = {"SLUICEGATE_DATA_DIR": str(tmp_path)}
    env = read_environment({**environ, "SLUICEGATE_TRUSTED_PROXIES": "10.0.0.5, fd00::/8"})
    assert [str(network) for network in env.trusted_proxies] == ["10.0.0.5/32", "fd00::/8"]
    with pytest.raises(WrongSetting, match="SLUICEGATE_TRUSTED_PROXIES"):
        read_environment({**environ, "SLUICEGATE_TRUSTED_PROXIES": "proxy.example"})

"""Is an operator behind a proxy that ends TLS let through, whichever process answers, and a stranger not?"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playwright.sync_api import expect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.browser.room import Room
from tests.support.processes import kill_group
from tests.support.stack import ROOT
from tests.support.tls_proxy import TlsProxy
from tests.support.waiting import wait_until
from workers.supervise import ports

from .house import House

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def proxy(house: House) -> Iterator[TlsProxy]:
    """Before two web processes of the installation that know of it."""
    found = [ports.find_free(), ports.find_free()]
    proxy = TlsProxy(house.stack.data_dir, found)
    processes = []
    try:
        for port in found:
            log = (house.stack.data_dir / f"web-{port}.log").open("wb")
            words = ["-m", "uvicorn", "--no-proxy-headers", "config.asgi:application", "--port", str(port)]
            processes.append(
                subprocess.Popen(
                    [sys.executable, *words, "--log-level", "warning", "--lifespan", "off"],
                    cwd=ROOT,
                    env={**house.environment, "SLUICEGATE_TRUSTED_ORIGINS": proxy.url},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
            log.close()
        for port in found:
            wait_until(lambda port=port: ports.is_alive(port), within_s=60, what="a web process")
        yield proxy
    finally:
        for process in processes:
            kill_group(process)
        proxy.close()


def log_in(url: str) -> httpx.Client:
    """An operator's browser, as far as its requests show; each has the Origin that a browser adds."""
    client = httpx.Client(base_url=url, verify=False, trust_env=False, timeout=30)
    client.get("/login/").raise_for_status()
    client.headers["Origin"] = url
    form = {"username": "operator", "password": "a pass phrase for tests", "next": "/audit/"}
    form["csrfmiddlewaretoken"] = client.cookies["sluicegate_csrf"]
    answer = client.post("/login/", data=form)
    assert (answer.status_code, answer.headers.get("Location")) == (302, "/audit/"), answer.text[:500]
    client.headers["X-CSRFToken"] = client.cookies["sluicegate_csrf"]
    return client


def strangers(url: str) -> list[str]:
    port = url.rpartition(":")[2]
    return [
        "https://evil.example",
        "null",
        f"https://localhost:{port}.evil.example",
        f"https://evil.example:{port}",
        f"https://localhost.evil.example:{port}",
        f"https://localhost:{int(port) - 1}",
        "https://",
        "",
    ]


def change(client: httpx.Client, number: int, **headers: str) -> Any:
    mode = ("saturated", "normal")[number % 2]
    return client.put("/api/v1/mode", json={"mode": mode, "queue": "bulk"}, headers=headers)


def test_who_has_a_token_is_let_through_by_either_process(house: House, proxy: TlsProxy) -> None:
    with closing(log_in(proxy.url)) as client:
        secure = [cookie.secure for cookie in client.cookies.jar]
        assert len(secure) == 2 and all(secure)
        before = dict(proxy.served)
        answers = [change(client, number) for number in range(20)]
        assert [answer.status_code for answer in answers] == [200] * 20
        assert [proxy.served[port] - before[port] for port in proxy.served] == [10, 10]
        for origin in strangers(proxy.url):
            for number in range(2):  # at each of the two processes
                answer = change(client, number, Origin=origin)
                assert (answer.status_code, answer.json()["reason"]) == (403, "csrf"), origin
        for number in range(2):
            assert change(client, number, **{"X-CSRFToken": "x"}).json()["reason"] == "csrf"
            assert change(client, number).status_code == 200
        # A process that does not know of its proxy refuses nobody either.
    plain = TlsProxy(house.stack.data_dir, [house.stack.port])
    try:
        with closing(log_in(plain.url)) as client:
            assert change(client, 0).status_code == change(client, 1).status_code == 200
            for origin in strangers(plain.url):
                assert change(client, 0, Origin=origin).status_code == 403, origin
    finally:
        plain.close()


def test_a_stream_is_given_by_either_process_to_their_own_pages_only(house: House, proxy: TlsProxy) -> None:
    address = proxy.url.replace("https", "wss") + "/ws/live"
    trust = ssl.create_default_context(cafile=proxy.certificate)
    with closing(log_in(proxy.url)) as client:
        cookies = {"Cookie": "; ".join(f"{cookie.name}={cookie.value}" for cookie in client.cookies.jar)}
    for _ in range(2):
        with connect(
            address,
            additional_headers=cookies,
            origin=Origin(proxy.url),
            ssl=trust,
            proxy=None,
            max_size=None,
        ) as stream:
            assert json.loads(stream.recv(timeout=30))["type"] == "frame"
    for origin in filter(None, strangers(proxy.url)):
        with connect(
            address, additional_headers=cookies, origin=Origin(origin), ssl=trust, proxy=None
        ) as stream:
            with pytest.raises(ConnectionClosed) as closed:
                stream.recv(timeout=30)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4403, origin


@pytest.mark.soak
def test_a_page_lives_behind_it(house: House, proxy: TlsProxy, browser: Browser) -> None:
    with browser.new_context(ignore_https_errors=True) as context:
        seen = SimpleNamespace(base_url=proxy.url, password=house.stack.password)
        room = Room(context.new_page(), seen)  # type: ignore[arg-type]
        room.log_in()
        for mode in ("saturated", "normal"):
            room.switch_to(mode, reason="behind a proxy")
        expect(room.page.locator("body")).to_have_attribute("data-live", "live")

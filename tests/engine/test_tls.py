"""Does everything reach a Redis over TLS with a CA of one's own by one URL, and refuse another?"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from celery import Celery
from channels_redis.pubsub import RedisPubSubChannelLayer

import workers
from config.locations import broker_url, channel_host, result_backend
from tests.support.servers import RedisServer
from workers.exceptions import StoreUnavailable
from workers.store import Offer, Store


@dataclass
class Secured:
    url: str
    other_ca: Path


@pytest.fixture(scope="module")
def secured(short_dir: Path) -> Iterator[Secured]:
    """Debian's server, since the embedded one is built without TLS."""
    binary, openssl = shutil.which("redis-server"), shutil.which("openssl")
    if binary is None or openssl is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no redis-server or openssl on this machine; `make test` installs them where it may")
        pytest.skip("no redis-server or openssl on this machine")
    home = short_dir / "tls"
    home.mkdir()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "other"):
        own = ("-x509", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        make(openssl, home, "req", *key, *own)
    make(openssl, home, "req", *key, "-subj", "/CN=localhost", "-keyout", "redis.key", "-out", "redis.csr")
    (home / "names").write_text("subjectAltName=DNS:localhost\n")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2", "-set_serial", "1", "-extfile", "names")
    make(openssl, home, "x509", "-req", "-in", "redis.csr", *signed, "-out", "redis.pem")
    server = RedisServer(home / "redis", binary=Path(binary), with_port=True)
    files = {"cert": "redis.pem", "key": "redis.key", "ca-cert": "ca.pem"}
    with server.configuration.open("a") as file:
        file.write(f"port 0\ntls-port {server.port}\ntls-auth-clients no\n")
        file.writelines(f"tls-{what}-file {home / name}\n" for what, name in files.items())
    server.start()
    yield Secured(f"rediss://localhost:{server.port}/0?ssl_ca_certs={home / 'ca.pem'}", home / "other.pem")
    server.kill()


def make(openssl: str, home: Path, *words: str) -> None:
    subprocess.run([openssl, *words], cwd=home, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def test_store_producer_results_and_stream_use_one_url(secured: Secured) -> None:
    store = Store.from_url(secured.url)
    store.client.flushall()
    store.publish_policy("normal", {"weight": 1, "max_count": 10}, version=1)
    assert store.admit([Offer(id="a", task="t", queue="normal", payload=b"{}")])[0].accepted
    backend, options = result_backend(secured.url)
    app = Celery("shop", broker=broker_url(secured.url), backend=backend)
    app.conf.result_backend_transport_options = options
    workers.install(app)
    app.conf.task_default_queue = "normal"

    @app.task(name="shop.note", shared=False)
    def note() -> None: ...

    assert app.conf.broker_url.startswith("sluicegates://")
    sent = note.delay()
    assert store.size("normal") == 2
    app.backend.store_result(sent.id, "kept", "SUCCESS")
    assert app.AsyncResult(sent.id).result == "kept"

    @async_to_sync
    async def stream() -> str:
        layer = RedisPubSubChannelLayer(hosts=[channel_host(secured.url)])
        channel = await layer.new_channel()
        await layer.group_add("live", channel)
        await layer.group_send("live", {"type": "frame.text", "text": "f1"})
        text = str((await layer.receive(channel))["text"])
        await layer.flush()
        return text

    assert stream() == "f1"
    app.close()
    store.client.close()


@pytest.mark.parametrize("fault", ["another CA", "another name", "no TLS"])
def test_a_server_that_cannot_prove_itself_is_refused(secured: Secured, fault: str) -> None:
    url = {
        "another CA": secured.url.partition("?")[0] + f"?ssl_ca_certs={secured.other_ca}",
        "another name": secured.url.replace("localhost", "127.0.0.1"),
        "no TLS": secured.url.replace("rediss", "redis").partition("?")[0],
    }[fault]
    store = Store.from_url(url)
    with pytest.raises(StoreUnavailable) as told:
        store.admit([Offer(id="b", task="t", queue="normal", payload=b"{}")])
    assert told.value.reason == "down"
    if fault != "no TLS":
        assert "certificate" in told.value.detail.lower()
    store.client.close()

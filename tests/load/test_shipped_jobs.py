"""Do the shipped jobs do their work against a real sink, and distrust what they are given?"""

from __future__ import annotations

import base64
import io
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from celery.exceptions import Retry
from PIL import Image

from workers.tasks import enrichment, thumbnails, webhooks
from workers.tasks.calls import AnswerRefused, AnswerTransient
from workers.tasks.sink import Behaviour, Sink
from workers.tasks.targets import TargetRefused


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = Sink(0)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("SLUICEGATE_SINK_URL", url)
    yield url
    server.shutdown()
    server.server_close()
    thread.join(5)


def tune(sink: str, name: str, **fields: float) -> None:
    httpx.put(f"{sink}/settings/{name}", json=fields, trust_env=False).raise_for_status()


def png(width: int, height: int) -> str:
    """A header that promises so many pixels, and next to nothing behind it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"x"))).decode()


def test_a_webhook_is_delivered(sink: str) -> None:
    assert webhooks.deliver(f"{sink}/hooks/orders", {"type": "order.placed"})["status"] == 200
    assert httpx.get(f"{sink}/counts", trust_env=False).json()["orders"]["calls"] == 1


def test_an_endpoint_that_is_gone_fails_for_good(sink: str) -> None:
    with pytest.raises(AnswerRefused, match="410"):
        webhooks.deliver(f"{sink}/hooks/gone", {})


def test_an_endpoint_that_is_broken_is_tried_again(sink: str) -> None:
    with pytest.raises((Retry, AnswerTransient)):
        webhooks.deliver(f"{sink}/hooks/broken", {})


def test_a_private_target_is_not_called() -> None:
    with pytest.raises(TargetRefused):
        webhooks.deliver("http://127.0.0.1:1/", {})


def test_an_event_is_enriched_by_the_named_downstream(sink: str) -> None:
    found = enrichment.enrich({"id": 7}, downstream="fraud")
    assert found["id"] == 7
    assert found["enriched"]["fraud"]["downstream"] == "fraud"


@pytest.mark.parametrize("downstream", ["../settings/fraud", "a b", "", "A", "x" * 41])
def test_a_downstream_is_only_a_name(sink: str, downstream: str) -> None:
    with pytest.raises(ValueError, match="short name"):
        enrichment.enrich({}, downstream=downstream)


def test_the_sink_serves_no_more_at_a_time_than_it_was_told(sink: str) -> None:
    tune(sink, "profiles", latency_ms=50, jitter_ms=0, concurrency=2)
    started = time.monotonic()
    with ThreadPoolExecutor(6) as pool:
        answers = list(
            pool.map(lambda number: httpx.post(f"{sink}/enrich/profiles", json={}, trust_env=False), range(6))
        )
    assert [answer.status_code for answer in answers] == [200] * 6
    assert time.monotonic() - started >= 0.15
    assert httpx.get(f"{sink}/counts", trust_env=False).json()["profiles"]["most_inside"] == 2


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"latency_ms": -1}, 422),
        ({"concurrency": 0}, 422),
        ({"speed": 1}, 422),
        ({"latency_ms": "1"}, 422),
        ([], 422),
    ],
)
def test_the_sink_refuses_settings_that_make_no_sense(sink: str, fields: object, status: int) -> None:
    assert httpx.put(f"{sink}/settings/a", json=fields, trust_env=False).status_code == status


def test_the_sink_is_not_moved_by_another_host_name_or_a_form(sink: str) -> None:
    other = httpx.put(f"{sink}/settings/a", json={}, headers={"Host": "evil.example:80"}, trust_env=False)
    form = httpx.put(
        f"{sink}/settings/a", content="{}", headers={"Content-Type": "text/plain"}, trust_env=False
    )
    assert (other.status_code, form.status_code) == (421, 415)


def test_a_behaviour_changes_only_what_is_named() -> None:
    assert Behaviour(latency_ms=9).changed({"fail_share": 1}) == Behaviour(latency_ms=9, fail_share=1)


def test_a_sample_becomes_a_thumbnail() -> None:
    made = thumbnails.make_thumbnail(sample={"width": 400, "height": 200}, max_edge=100)
    assert (made["width"], made["height"], made["source_width"]) == (100, 50, 400)


def test_an_image_is_shrunk_and_kept_in_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE_DATA_DIR", str(tmp_path))
    raw = io.BytesIO()
    Image.new("RGB", (300, 300), "red").save(raw, "PNG")
    made = thumbnails.make_thumbnail(base64.b64encode(raw.getvalue()).decode(), max_edge=30, save=True)
    with Image.open(tmp_path / made["file"]) as kept:
        assert kept.size == (30, 30)


@pytest.mark.parametrize("size", [(30_000, 30_000), (100_000, 100_000), (10_000, 10_000), (5000, 4801)])
def test_a_decompression_bomb_is_refused_by_its_header(size: tuple[int, int]) -> None:
    with pytest.raises(thumbnails.ImageRefused, match="pixels"):
        thumbnails.make_thumbnail(png(*size))


@pytest.mark.parametrize("image", ["", "!", "aW1hZ2UgY3V0IHNob3J0", "PHN2Zy8+", png(10, 10)])
def test_what_is_no_image_is_refused(image: str) -> None:
    with pytest.raises(thumbnails.ImageRefused):
        thumbnails.make_thumbnail(image)


def test_an_input_too_large_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(thumbnails.ImageRefused, match="larger"):
        thumbnails.make_thumbnail("A" * (thumbnails.MAX_INPUT_BYTES * 2))

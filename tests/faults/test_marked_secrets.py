"""Secrets are planted everywhere. Does any come out: of a page, the API, a frame, metrics, a log, Redis?"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.stack import Stack
from tests.support.waiting import wait_until
from workers.privacy import seal
from workers.store import Store

PAYLOAD_KEY = base64.urlsafe_b64encode(b"K" * 32).decode()
PAGES = (
    "/",
    "/jobs/",
    "/quarantine/",
    "/tenants/",
    "/privacy/",
    "/audit/",
    "/policies/",
    "/alerts/",
    "/workers/",
)


def mark(name: str) -> str:
    return f"MARKED-{name}-5ecret"


@pytest.fixture(scope="module")
def stack(gate_up: Callable[..., Stack]) -> Stack:
    return gate_up(name="marked", SLUICEGATE_PAYLOAD_KEYS=PAYLOAD_KEY, SLUICEGATE_LOG_LEVEL="INFO")


@pytest.fixture(scope="module")
def planted(stack: Stack) -> dict[str, str]:
    """Jobs of each class that succeed and fail with secrets in all that they carry; their ids by name."""
    ids = {
        "public": stack.submit("drill.echo", {"apiKey": mark("public"), "n": 1}, payload_class="public"),
        "internal-fails": stack.submit("drill.fail", f"no access, password={mark('named')}"),
    }
    for name in ("internal", "personal", "secret"):
        ids[name] = stack.submit("drill.echo", mark(name), payload_class=name)
    for name in ("personal", "secret"):
        ids[f"{name}-fails"] = stack.submit("drill.fail", mark(f"{name}-error"), payload_class=name)
        ids[f"{name}-waits"] = stack.submit("drill.echo", mark(name), payload_class=name, countdown_s=600)
    store = Store.from_url(stack.redis_url)
    body = base64.b64encode(json.dumps([[mark("inlet")], {}, {}]).encode()).decode()
    unknown = {
        "body": body,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"id": "unknown-task", "task": "no.such.task", "argsrepr": mark("inlet")},
        "properties": {"body_encoding": "base64", "delivery_info": {}, "delivery_tag": "x"},
    }
    store.client.lpush("normal", json.dumps(unknown), f"not-json {mark('inlet')}")
    for name, op_id in ids.items():
        wanted = "pending" if name.endswith("waits") else "failed" if name.endswith("fails") else "succeeded"
        wait_until(
            lambda op=op_id, w=wanted: stack.job(op)["status"] == w, within_s=60, what=f"{name} to end"
        )
    wait_until(lambda: not store.client.llen("normal"), within_s=30, what="the inlet to be drained")
    held = len([name for name in ids if name.endswith("fails")]) + 1
    wait_until(lambda: stack.get("/api/v1/quarantine?state=all")["count"] >= held, within_s=30)
    store.client.close()
    return ids


def reads(stack: Stack, planted: dict[str, str]) -> Iterator[tuple[str, str]]:
    """All that can be read by HTTP: by a key that operates but does not submit, and pages by a viewer."""
    key = stack.manage("apikey", "create", "--tenant", "default", "--scopes", "read,operate")
    with stack.client(key) as client:
        paths = client.get("/api/v1/openapi.json").json()["paths"]
        for path, routes in paths.items():
            if "get" in routes and "{" not in path:
                yield path, client.get(path).text
        for op_id in planted.values():
            for path in (f"/api/v1/jobs/{op_id}", f"/api/v1/quarantine/{op_id}"):
                yield path, client.get(path).text
        yield "all of the quarantine", client.get("/api/v1/quarantine?state=all&limit=200").text
        yield "/metrics", client.get("/metrics").text
    stack.manage("user", "create", "reader", "--role", "viewer", "--password", "a long enough phrase")
    with httpx.Client(base_url=stack.base_url, timeout=10, trust_env=False) as browser:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get("/login/").text)
        assert token is not None
        form = {
            "username": "reader",
            "password": "a long enough phrase",
            "csrfmiddlewaretoken": token[1],
            "next": "/",
        }
        assert browser.post("/login/", data=form, headers={"Origin": stack.base_url}).status_code == 302
        for page in PAGES:
            yield page, browser.get(page).text
        for op_id in planted.values():
            yield f"/jobs/{op_id}/", browser.get(f"/jobs/{op_id}/").text
            yield f"viewer's {op_id}", browser.get(f"/api/v1/jobs/{op_id}").text


def logs(stack: Stack) -> Iterator[tuple[str, str]]:
    yield "output", stack.text
    for path in Path(stack.data_dir).rglob("*"):
        if path.is_file() and (path.suffix in (".log", ".out") or "log" in path.parts[-2]):
            yield str(path.relative_to(stack.data_dir)), path.read_text(errors="replace")


def everything_in_redis(stack: Stack) -> Iterator[tuple[str, str]]:
    store = Store.from_url(stack.redis_url)
    for key in store.client.scan_iter("*", count=1000):
        kind = store.client.type(key)
        values = {
            b"hash": lambda k: [part for pair in store.client.hgetall(k).items() for part in pair],
            b"zset": lambda k: store.client.zrange(k, 0, -1),
            b"list": lambda k: store.client.lrange(k, 0, -1),
            b"string": lambda k: [store.client.get(k) or b""],
            b"set": lambda k: list(store.client.smembers(k)),
        }.get(kind, lambda k: [])(key)
        yield key.decode(), b"\n".join((key, *values)).decode("utf-8", "replace")
    store.client.close()


def leaks(outputs: Iterator[tuple[str, str]], *secrets: str) -> list[str]:
    return [f"{secret[:24]} in {where}" for where, text in outputs for secret in secrets if secret in text]


def test_no_read_by_http_shows_one(stack: Stack, planted: dict[str, str]) -> None:
    seen = list(reads(stack, planted))
    assert len(seen) > 40
    assert not leaks(iter(seen), "MARKED-", PAYLOAD_KEY, stack.api_key, stack.password)


def test_no_log_and_no_output_shows_one(stack: Stack, planted: dict[str, str]) -> None:
    secret_key = (Path(stack.data_dir) / "secret_key").read_text().strip()
    seen = dict(logs(stack))
    assert any("drill.fail" in text for text in seen.values()), "the failures are logged, without their words"
    assert not leaks(iter(seen.items()), "MARKED-", PAYLOAD_KEY, secret_key)


def test_redis_shows_no_payload_and_no_result(stack: Stack, planted: dict[str, str]) -> None:
    found = leaks(
        everything_in_redis(stack), *(mark(name) for name in ("public", "internal", "secret", "named"))
    )
    assert not found
    assert not leaks(everything_in_redis(stack), mark("secret-error"), mark("personal-error"), PAYLOAD_KEY)


def test_the_database_shows_no_payload(stack: Stack, planted: dict[str, str]) -> None:
    files = list(Path(stack.data_dir).glob("sluicegate.sqlite3*"))
    assert files
    held = b"".join(path.read_bytes() for path in files).decode("latin-1")
    assert seal.MARK.decode() in held
    names = ("public", "internal", "personal", "secret", "named", "inlet", "secret-error", "personal-error")
    marks = [mark(name) for name in names]
    assert not leaks(iter([("database", held)]), *marks, PAYLOAD_KEY, stack.api_key)


def test_those_with_the_right_see_them(stack: Stack, planted: dict[str, str]) -> None:
    """The test itself would pass on an installation that lost everything."""
    with stack.client() as client:
        held = client.post(f"/api/v1/jobs/{planted['personal-fails']}/reveal", json={"reason": "test"}).json()
        assert held["args"] == [mark("personal-error")] and held["error"]["message"] == mark("personal-error")
        waits = client.post(
            f"/api/v1/jobs/{planted['personal-waits']}/reveal", json={"reason": "test"}
        ).json()
        assert waits["args"] == [mark("personal")]
        assert client.get(f"/api/v1/jobs/{planted['internal']}").json()["result"] == mark("internal")
        refused = client.post(f"/api/v1/jobs/{planted['secret-fails']}/reveal", json={"reason": "test"})
        assert refused.status_code == 403

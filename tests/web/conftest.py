"""What does a test of the door start from? A gate on a real Redis, users of each role, and keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from queues_ui.access import counted
from queues_ui.access.caller import forget_keys
from queues_ui.queries import durability, engine, known_queues, standing_mode
from queues_ui.queries.reach import breaker
from workers.actions import bootstrap, create_key, create_user
from workers.actions import gate as gate_module
from workers.store import Store

PASSWORD = "a long pass phrase"
OPERATOR_KEY = "sg_operator_0123456789abcdefghij"
ADMIN_KEY = "sg_admin_0123456789abcdefghij"


@pytest.fixture
def gate(db: None, redis_url: str, settings: Any) -> Iterator[Store]:
    """A prepared installation: shipped policies, users and keys; nothing waits."""
    settings.SLUICEGATE_REDIS_URL = redis_url
    settings.SLUICEGATE_OPERATOR_PASSWORD = None
    settings.SLUICEGATE_API_KEY = OPERATOR_KEY
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.MD5PasswordHasher"
    ]  # a real one takes 0.3 s a login
    _forget()
    bootstrap.prepare_database()
    store = gate_module.open_gate()
    bootstrap.restore_gate(store)
    create_key.execute(bootstrap.INSTALLER, scopes=["admin"], key=ADMIN_KEY)
    yield store
    store.client.close()
    _forget()


@pytest.fixture
def users(gate: Store) -> dict[str, Any]:
    for role in ("viewer", "operator", "admin"):
        create_user.execute(bootstrap.INSTALLER, name=f"a-{role}", role=role, password=PASSWORD)
    return {
        user.get_username()[2:]: user for user in get_user_model().objects.filter(username__startswith="a-")
    }


class Api:
    """The API as a program sees it: JSON in, JSON out."""

    def __init__(self, key: str | None, client: Client | None = None) -> None:
        self.client = client or Client()
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        raw = body if isinstance(body, (bytes, str)) else "" if body is None else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.generic(
            method, f"/api/v1{path}", raw, content_type="application/json", headers={**self.headers, **named}
        )

    def get(self, path: str, **headers: str) -> Any:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.ask("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.ask("PUT", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self.ask("DELETE", path, **headers)


@pytest.fixture
def api(gate: Store) -> Api:
    """With the key of an installation's first start: submit, read, operate."""
    return Api(OPERATOR_KEY)


@pytest.fixture
def admin_api(gate: Store) -> Api:
    return Api(ADMIN_KEY)


@pytest.fixture
def key_for(gate: Store) -> Callable[..., Api]:
    def make(*scopes: str, **about: Any) -> Api:
        return Api(create_key.execute(bootstrap.INSTALLER, scopes=list(scopes), **about).data["key"])

    return make


@pytest.fixture
def logged_in(users: dict[str, Any]) -> Callable[..., Api]:
    """A logged-in browser that sends its token with what changes something, unless told not to."""

    def log_in(role: str, *, token: bool = True) -> Api:
        client = Client(enforce_csrf_checks=True)
        client.force_login(users[role])
        client.get("/login/?next=/")
        client.get("/")
        session = Api(None, client)
        if token:
            session.headers = {"X-CSRFToken": client.cookies["sluicegate_csrf"].value}
        return session

    return log_in


@pytest.fixture
def frame(gate: Store) -> dict[str, Any]:
    """A frame as the monitor would leave it, of two tenants."""
    now_ms = gate.snapshot()["now_ms"]
    queue = {
        "name": "normal",
        "mode": "normal",
        "depth": 2,
        "delayed": 0,
        "in_flight": 0,
        "bytes": 400,
        "cost_ms": 200,
        "oldest_age_ms": 1200,
        "consumers": 0,
        "bounds": {"count": 20000, "bytes": 67108864, "cost_ms": 3600000, "age_s": None},
        "totals": {"offered": 3, "accepted": 2, "refused": 1, "refused_by": {"count": 1, "new-reason": 2}},
        "wait_ms": {"p50": None, "p95": None, "p99": None},
        "drain": {"state": "stalled", "seconds": None},
    }
    made = {
        "seq": 7,
        "at_ms": now_ms,
        "mode": "normal",
        "sampled_ago_ms": 0,
        "queues": [queue],
        "tenants": [{"tenant": name, "queue": "normal", "depth": 1} for name in ("default", "other-tenant")],
        "workers": [{"name": "w1", "state": "live", "held": [{"id": "x", "queue": "normal", "task": "t"}]}],
        "quarantine": {"count": 1, "bytes": 10, "oldest_age_ms": 5, "causes": [{"label": "secret"}]},
        "alerts": {"firing": 0, "items": []},
    }
    gate.put_frame(json.dumps(made))
    return made


def _forget() -> None:
    gate_module.open_gate.cache_clear()
    breaker.close()
    forget_keys()
    counted.teller.cache_clear()
    durability._seen = (0.0, "unknown")
    known_queues._seen = (0.0, frozenset())
    standing_mode.forget_modes()
    app = engine.celery_app()
    app.conf.result_backend = "cache+memory://"
    app._local.__dict__.pop("backend", None)
    app._backend_cache = None

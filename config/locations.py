"""How is one server named to Django, to Celery, to the stream and to the gate?"""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from workers.store.connections import read_sentinel_url, sentinel_settings

KEPT_S = 60  # a thread of the web process keeps its database connection this long

_GATE_SCHEMES = {"redis": "sluicegate", "rediss": "sluicegates", "unix": "sluicegate+socket"}
_PLAIN_SCHEMES = {"sluicegate": "redis", "sluicegates": "rediss", "sluicegate+socket": "unix"}
_SENTINEL = "sluicegate+sentinel"


def broker_url(redis_url: str) -> str:
    """The gate's transport on the server that `redis_url` names."""
    scheme = urlsplit(redis_url).scheme
    if scheme == "unix":
        return _socket_url("sluicegate+socket", redis_url)
    return _GATE_SCHEMES.get(scheme, scheme) + redis_url[len(scheme) :]


def result_backend(redis_url: str) -> tuple[str, dict[str, Any]]:
    """Celery's name of the same server, and the transport options that it needs.

    What is before the + names the gate's own backend, which stores the result of accepted work even in a
    full Redis and leaves out what is too large.
    """
    plain = plain_url(redis_url)
    parts = urlsplit(plain)
    if parts.scheme == "unix":
        return _socket_url("sluicegate+socket", plain), {}
    if parts.scheme == _SENTINEL:
        watched = read_sentinel_url(plain)
        user = parts.netloc.rpartition("@")[0]
        login = f"{user}@" if user else ""
        nodes = ";".join(
            f"sentinel://{login}{host}:{port}/{watched.database}" for host, port in watched.nodes
        )
        return nodes, {"master_name": watched.master, "sentinel_kwargs": sentinel_settings(watched)}
    if parts.scheme == "rediss" and "ssl_cert_reqs" not in _query(plain):
        plain += ("&" if parts.query else "?") + "ssl_cert_reqs=required"  # Celery wants it said
    return f"sluicegate+{plain}", {}


def channel_host(redis_url: str) -> dict[str, Any]:
    """The server as the channel layer wants it."""
    plain = plain_url(redis_url)
    parts = urlsplit(plain)
    if parts.scheme != _SENTINEL:
        return {"address": plain}
    watched = read_sentinel_url(plain)
    login = {"username": watched.username, "password": watched.password}
    return {
        "sentinels": list(watched.nodes),
        "sentinel_kwargs": sentinel_settings(watched, asynchronous=True),
        "master_name": watched.master,
        "db": watched.database,
        **{name: value for name, value in login.items() if value},
    }


def plain_url(redis_url: str) -> str:
    """redis://, rediss:// or unix://, as redis-py reads it; a sentinel URL stays as it is."""
    scheme = urlsplit(redis_url).scheme
    if scheme not in _PLAIN_SCHEMES:
        return redis_url
    plain = _PLAIN_SCHEMES[scheme] + redis_url[len(scheme) :]
    return plain.replace("virtual_host=", "db=") if scheme == "sluicegate+socket" else plain


def database_settings(database_url: str | None, sqlite_path: str) -> dict[str, Any]:
    if not database_url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": sqlite_path,
            "CONN_MAX_AGE": KEPT_S,
            # IMMEDIATE: a deferred transaction that turns into a writer is told "locked" at once.
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 5,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    parts = urlsplit(database_url)
    if parts.scheme == "sqlite":
        return database_settings(None, unquote(parts.path))
    query = _query(database_url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": KEPT_S,
        "CONN_HEALTH_CHECKS": True,
        # A lock that somebody holds, and a peer that is gone without a word, end in an error and not never.
        "OPTIONS": {
            "connect_timeout": 2,
            "options": "-c lock_timeout=3000",
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
            **query,
        },
    }


def _socket_url(scheme: str, unix_url: str) -> str:
    parts = urlsplit(unix_url)
    password = f":{parts.password}@" if parts.password else ""
    return f"{scheme}://{password}{parts.path}?virtual_host={_query(unix_url).get('db', '0')}"


def _query(url: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}

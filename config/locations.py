"""How is one server named to Django, to Celery, to the stream and to the gate?"""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_BROKER_SCHEMES = {"redis": "sluicegate", "rediss": "sluicegates", "unix": "sluicegate+socket"}


def broker_url(redis_url: str) -> str:
    """The gate's transport on the server that `redis_url` names."""
    scheme = urlsplit(redis_url).scheme
    if scheme == "unix":
        return _socket_url("sluicegate+socket", redis_url)
    if scheme in _BROKER_SCHEMES:
        return _BROKER_SCHEMES[scheme] + redis_url[len(scheme) :]
    return redis_url


def result_backend_url(redis_url: str) -> str:
    if urlsplit(redis_url).scheme == "unix":
        return _socket_url("redis+socket", redis_url)
    return redis_url


def database_settings(database_url: str | None, sqlite_path: str) -> dict[str, Any]:
    if not database_url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": sqlite_path,
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
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError(
            f"SLUICEGATE_DATABASE_URL: scheme {parts.scheme!r} is not known; use postgresql://user:password@host/name"
        )
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 2, **query},
    }


def _socket_url(scheme: str, unix_url: str) -> str:
    parts = urlsplit(unix_url)
    database = parse_qs(parts.query).get("db", ["0"])[-1]
    password = f":{parts.password}@" if parts.password else ""
    return f"{scheme}://{password}{parts.path}?virtual_host={database}"

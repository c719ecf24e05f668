"""What did the environment say? One typed reading of it."""

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Environment:
    data_dir: Path
    redis_url: str
    database_url: str | None
    gate: str
    secret_key: str
    allowed_hosts: list[str]
    trusted_origins: list[str]
    tls: bool
    imports: list[str]
    max_body_bytes: int
    operator_password: str | None
    api_key: str | None
    log_level: str
    installation: str
    alert_hosts: list[str]


def _words(name: str) -> list[str]:
    return [word.strip() for word in os.environ.get(name, "").split(",") if word.strip()]


def _kept_secret(path: Path) -> str:
    """Made once, kept with mode 0600; two processes starting together agree on one."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(handle, "w") as file:
        value = secrets.token_urlsafe(48)
        file.write(value)
    return value


def read_environment() -> Environment:
    data_dir = Path(os.environ.get("SLUICEGATE_DATA_DIR", "var")).resolve()
    data_dir.mkdir(parents=True, exist_ok=True)
    origins = _words("SLUICEGATE_TRUSTED_ORIGINS")
    return Environment(
        data_dir=data_dir,
        redis_url=os.environ.get("SLUICEGATE_REDIS_URL") or f"unix://{data_dir}/redis.sock?db=0",
        database_url=os.environ.get("SLUICEGATE_DATABASE_URL") or None,
        gate=os.environ.get("SLUICEGATE_GATE", "main"),
        secret_key=os.environ.get("SLUICEGATE_SECRET_KEY") or _kept_secret(data_dir / "secret_key"),
        allowed_hosts=_words("SLUICEGATE_ALLOWED_HOSTS") or ["localhost", "127.0.0.1", "[::1]"],
        trusted_origins=origins,
        tls=any(origin.startswith("https://") for origin in origins),
        imports=_words("SLUICEGATE_IMPORTS"),
        max_body_bytes=int(os.environ.get("SLUICEGATE_MAX_BODY_BYTES", "1048576")),
        operator_password=os.environ.get("SLUICEGATE_OPERATOR_PASSWORD") or None,
        api_key=os.environ.get("SLUICEGATE_API_KEY") or None,
        installation=os.environ.get("SLUICEGATE_INSTALLATION") or socket.gethostname(),
        alert_hosts=_words("SLUICEGATE_ALERT_HOSTS"),
        log_level=os.environ.get("SLUICEGATE_LOG_LEVEL", "INFO"),
    )


env = read_environment()

"""Which settings does an installation take from its environment? Every one, with its unit and meaning.

The table in the README is made from `SETTINGS`, and a test compares the two.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from workers.privacy.redact import scrub_text
from workers.privacy.seal import Keyring, parse_keys
from workers.supervise.kept import keep_secret

#: A UNIX socket's path holds 107 bytes on Linux and 103 on macOS; the server appends nothing to it.
SOCKET_PATH_MAX_BYTES: Final = 100

REDIS_SCHEMES: Final = (
    "redis",
    "rediss",
    "unix",
    "sluicegate",
    "sluicegates",
    "sluicegate+socket",
    "sluicegate+sentinel",
)
DATABASE_SCHEMES: Final = ("postgres", "postgresql", "sqlite")
DURABILITIES: Final = ("memory", "everysec", "always", "replica")
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


class WrongSetting(ValueError):
    """A variable holds what it cannot mean; the message names it and the fix."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable: ``default`` is for the README, ``read`` turns text into a value or raises ValueError."""

    name: str
    default: str
    unit: str
    meaning: str
    read: Callable[[str], Any]
    secret: bool = False  # no message shows its value


@dataclass(frozen=True, slots=True)
class Environment:
    port: int
    data_dir: Path
    redis_url: str
    embedded: bool
    database_url: str | None
    demo: bool
    workers: int
    imports: list[str]
    operator_password: str | None
    api_key: str | None
    secret_key: str
    allowed_hosts: list[str]
    trusted_origins: list[str]
    tls: bool
    gate: str
    durability: str
    max_memory_bytes: int
    retention_s: int
    drills: bool
    max_body_bytes: int
    installation: str
    alert_hosts: list[str]
    webhook_hosts: list[str]
    address_rate: int
    address_burst: int
    trusted_proxies: list[IPv4Network | IPv6Network]
    log_level: str
    payload_keys: tuple[str, ...]  # their names


def _text(value: str) -> str:
    return value


def _modules(text: str) -> list[str]:
    names = _words(text)
    for name in names:
        top = name.partition(".")[0]
        if not top.isidentifier() or find_spec(top) is None:
            raise ValueError(
                f"names a module that is not on the path, {name}; say which directory holds it: "
                "PYTHONPATH=/path/to/your/project"
            )
    return names


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def _networks(value: str) -> list[IPv4Network | IPv6Network]:
    try:
        return [ip_network(word) for word in _words(value)]
    except ValueError as fault:
        raise ValueError(f"is no list of addresses ({fault}); give for instance 10.0.0.5,fd00::/8") from None


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError(f"is not a whole number; give one from {low} to {high}") from None
        if not low <= number <= high:
            raise ValueError(f"is out of range; give a whole number from {low} to {high}")
        return number

    return read


def _switch(value: str) -> bool:
    if value not in ("0", "1"):
        raise ValueError("is neither 0 nor 1; give 1 for on, 0 for off")
    return value == "1"


def _one_of(*words: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in words:
            raise ValueError(f"is not known; give one of {', '.join(words)}")
        return value

    return read


def _url(schemes: tuple[str, ...], example: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if urlsplit(value).scheme not in schemes:
            raise ValueError(f"has no known scheme; give for instance {example}")
        return value

    return read


def _gate(value: str) -> str:
    if not value or len(value) > 60 or not all(sign.isalnum() or sign in "-_." for sign in value):
        raise ValueError("is no name of a gate; use letters, digits, - _ and .")
    return value


def _payload_keys(value: str) -> tuple[str, ...]:
    """Names of the keys; the keys themselves are read where they are used (workers/privacy/seal.py)."""
    return Keyring(parse_keys(value)).ids


def _long_enough(least: int) -> Callable[[str], str]:
    def read(value: str) -> str:
        if len(value) < least:
            raise ValueError(
                f"is too short; give at least {least} characters, or leave it out to have one made"
            )
        return value

    return read


_ALL: Final = (
    Setting(
        "SLUICEGATE_PORT",
        "8000",
        "port",
        "where the control room and the API listen, on 127.0.0.1",
        _number(1, 65535),
    ),
    Setting(
        "SLUICEGATE_DATA_DIR",
        "./var",
        "path",
        "everything that is kept: database, Redis files, secrets, logs",
        _text,
    ),
    Setting(
        "SLUICEGATE_REDIS_URL",
        "an embedded server",
        "URL",
        "the Redis or Valkey to use: redis://, rediss://, unix:// or sluicegate+sentinel://",
        _url(REDIS_SCHEMES, "redis://127.0.0.1:6379/0"),
    ),
    Setting(
        "SLUICEGATE_DATABASE_URL",
        "SQLite in the data directory",
        "URL",
        "the database of policies, journal, quarantine and history",
        _url(DATABASE_SCHEMES, "postgresql://user:password@127.0.0.1/sluicegate"),
    ),
    Setting("SLUICEGATE_DEMO", "1", "0 or 1", "runs the demonstration workload", _switch),
    Setting(
        "SLUICEGATE_WORKERS",
        "2",
        "processes",
        "jobs that the workers of `make up` run at a time; 0: only your own workers run",
        _number(0, 256),
    ),
    Setting("SLUICEGATE_IMPORTS", "none", "modules, by comma", "modules with your own tasks", _modules),
    Setting(
        "SLUICEGATE_OPERATOR_PASSWORD",
        "generated",
        "text",
        "password of the user `operator`",
        _long_enough(8),
    ),
    Setting(
        "SLUICEGATE_API_KEY", "generated", "text", "an API key for the tenant `default`", _long_enough(16)
    ),
    Setting(
        "SLUICEGATE_SECRET_KEY",
        "generated",
        "text",
        "signs sessions; shared by all web processes",
        _long_enough(32),
    ),
    Setting(
        "SLUICEGATE_PAYLOAD_KEYS",
        "none",
        "keys, by comma",
        "encrypts stored payloads and results with the first; each opens; the same for producers and workers",
        _payload_keys,
        secret=True,
    ),
    Setting(
        "SLUICEGATE_ALLOWED_HOSTS",
        "localhost,127.0.0.1,[::1]",
        "host names, by comma",
        "names by which the control room may be addressed",
        _words,
    ),
    Setting(
        "SLUICEGATE_TRUSTED_ORIGINS",
        "none",
        "origins, by comma",
        "origins of a proxy in front, such as https://gate.example; an https one turns on TLS-only cookies",
        _words,
    ),
    Setting("SLUICEGATE_GATE", "main", "name", "the gate's name: several may share one Redis", _gate),
    Setting(
        "SLUICEGATE_DURABILITY",
        "everysec",
        "memory, everysec, always or replica",
        "what an acceptance survives; the embedded server is set up for it, another is compared with it",
        _one_of(*DURABILITIES),
    ),
    Setting(
        "SLUICEGATE_MAX_MEMORY_MB",
        "512",
        "MiB",
        "bound on the embedded server's memory",
        _number(16, 1024 * 1024),
    ),
    Setting(
        "SLUICEGATE_RETENTION_S",
        "3600",
        "s",
        "how long ended jobs and results are kept in Redis; a payload class may keep results for less",
        _number(1, 30 * 86_400),
    ),
    Setting(
        "SLUICEGATE_DRILLS",
        "0; `make up` sets 1",
        "0 or 1",
        "registers tasks that fail, sleep or die on purpose",
        _switch,
    ),
    Setting(
        "SLUICEGATE_MAX_BODY_BYTES",
        "1048576",
        "bytes",
        "largest body of a request",
        _number(1024, 1024 * 1024 * 1024),
    ),
    Setting(
        "SLUICEGATE_INSTALLATION",
        "the host's name",
        "text",
        "what the pages and alerts call this installation",
        _text,
    ),
    Setting(
        "SLUICEGATE_ALERT_HOSTS",
        "none",
        "host names, by comma",
        "private hosts that alerts may be sent to",
        _words,
    ),
    Setting(
        "SLUICEGATE_WEBHOOK_HOSTS",
        "every public host",
        "globs, by comma",
        "hosts that the shipped webhook task may call",
        _words,
    ),
    Setting(
        "SLUICEGATE_ADDRESS_RATE",
        "500",
        "requests/s",
        "requests that each web process takes from one address; 0: no limit",
        _number(0, 1_000_000),
    ),
    Setting(
        "SLUICEGATE_ADDRESS_BURST",
        "1000",
        "requests",
        "requests that one address may make at once",
        _number(1, 10_000_000),
    ),
    Setting(
        "SLUICEGATE_TRUSTED_PROXIES",
        "none",
        "addresses or networks, by comma",
        "proxies in front whose X-Forwarded-For is believed",
        _networks,
    ),
    Setting("SLUICEGATE_LOG_LEVEL", "INFO", "level", "least level that is logged", _one_of(*LOG_LEVELS)),
)
SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _ALL}


def read_environment(environ: Mapping[str, str] = os.environ) -> Environment:
    """All settings, read and checked.

    Makes the data directory and, in it, the secret key: two processes starting together agree on one.

    Raises:
        WrongSetting: a value cannot be meant, or the data directory cannot be used.
    """

    def read(name: str, default: str | None = None) -> Any:
        value = environ.get(name) or default
        if value is None:
            return None
        try:
            return SETTINGS[name].read(value)
        except ValueError as fault:
            hidden = SETTINGS[name].secret or SETTINGS[name].default == "generated"
            shown = "its value" if hidden else repr(scrub_text(value))
            raise WrongSetting(f"{name}: {shown} {fault}") from None

    data_dir = _open_data_dir(read("SLUICEGATE_DATA_DIR", "var"))
    redis_url = read("SLUICEGATE_REDIS_URL")
    origins = read("SLUICEGATE_TRUSTED_ORIGINS", "") or []
    return Environment(
        port=read("SLUICEGATE_PORT", "8000"),
        data_dir=data_dir,
        redis_url=redis_url or f"unix://{quote(str(socket_path(data_dir)))}?db=0",
        embedded=redis_url is None,
        database_url=read("SLUICEGATE_DATABASE_URL"),
        demo=read("SLUICEGATE_DEMO", "1"),
        workers=read("SLUICEGATE_WORKERS", "2"),
        imports=read("SLUICEGATE_IMPORTS") or [],
        operator_password=read("SLUICEGATE_OPERATOR_PASSWORD"),
        api_key=read("SLUICEGATE_API_KEY"),
        secret_key=read("SLUICEGATE_SECRET_KEY") or _kept_secret(data_dir / "secret_key"),
        allowed_hosts=read("SLUICEGATE_ALLOWED_HOSTS", SETTINGS["SLUICEGATE_ALLOWED_HOSTS"].default),
        trusted_origins=origins,
        tls=any(origin.startswith("https://") for origin in origins),
        gate=read("SLUICEGATE_GATE", "main"),
        durability=read("SLUICEGATE_DURABILITY", "everysec"),
        max_memory_bytes=read("SLUICEGATE_MAX_MEMORY_MB", "512") * 1024 * 1024,
        retention_s=read("SLUICEGATE_RETENTION_S", "3600"),
        drills=read("SLUICEGATE_DRILLS", "0"),
        max_body_bytes=read("SLUICEGATE_MAX_BODY_BYTES", "1048576"),
        installation=read("SLUICEGATE_INSTALLATION") or socket.gethostname(),
        alert_hosts=read("SLUICEGATE_ALERT_HOSTS") or [],
        webhook_hosts=read("SLUICEGATE_WEBHOOK_HOSTS") or [],
        address_rate=read("SLUICEGATE_ADDRESS_RATE", "500"),
        address_burst=read("SLUICEGATE_ADDRESS_BURST", "1000"),
        trusted_proxies=read("SLUICEGATE_TRUSTED_PROXIES") or [],
        log_level=read("SLUICEGATE_LOG_LEVEL", "INFO"),
        payload_keys=read("SLUICEGATE_PAYLOAD_KEYS") or (),
    )


def socket_path(data_dir: Path) -> Path:
    """Where the embedded server listens: in the data directory, by a short link where that is too deep."""
    path = data_dir / "redis.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
        return path
    mark = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"sluicegate-{os.getuid()}-{mark}" / "redis.sock"


def _kept_secret(path: Path) -> str:
    try:
        return keep_secret(path)[0]
    except ValueError as fault:
        raise WrongSetting(str(fault)) from None


def _open_data_dir(text: str) -> Path:
    data_dir = Path(text).expanduser().resolve()
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise WrongSetting(
            f"SLUICEGATE_DATA_DIR: {data_dir} cannot be made ({fault.strerror}); name one that may be written"
        ) from None
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        raise WrongSetting(
            f"SLUICEGATE_DATA_DIR: {data_dir} may not be written; name another, or change its rights"
        )
    return data_dir

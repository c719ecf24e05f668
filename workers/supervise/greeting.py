"""What does a person need to know once everything runs? Five lines."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

_ECHO: Final = '{"task": "drill.echo", "args": ["hello"]}'
_THUMBNAIL: Final = '{"task": "images.thumbnail", "queue": "bulk", "kwargs": {"sample": {"width": 64}}}'


def greet(
    *, port: int, data_dir: Path, password: str | None, key: str | None, drills: bool, workers: int
) -> list[str]:
    """``password`` and ``key`` are those that were made just now: they are shown this once.

    ``workers``: jobs that this installation's own workers run at a time.
    """
    base = f"http://127.0.0.1:{port}"
    bearer = key or _kept_word("SLUICEGATE_API_KEY", data_dir / "api_key")
    job = _ECHO if drills else _THUMBNAIL
    return [
        f"look at  {base}/",
        f"log in   user operator, {_tell_password(password, data_dir / 'operator_password')}",
        f"""submit   curl -H "Authorization: Bearer {bearer}" -H 'Content-Type: application/json' """
        f"""-d '{job}' {base}/api/v1/jobs  # {_say_key(workers)}""",
        f"data     {shown(data_dir)}: database, Redis's files, secrets; logs in {shown(data_dir / 'log')}",
        "stop     Ctrl-C",
    ]


def _say_key(workers: int) -> str:
    if not workers:
        return "waits for a worker that knows the task: none was started here"
    return "the key may submit, read and operate"


def shown(path: Path) -> Path:
    """Relative to where the person stands, when that is shorter."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _tell_password(password: str | None, path: Path) -> str:
    if password is not None:
        return f"password {password} (shown this once, kept in {shown(path)})"
    if os.environ.get("SLUICEGATE_OPERATOR_PASSWORD"):
        return "password as SLUICEGATE_OPERATOR_PASSWORD says"
    return f"password as first made in {shown(path)}"


def _kept_word(variable: str, path: Path) -> str:
    """What a shell turns into the secret, without showing it."""
    return f"${variable}" if os.environ.get(variable) else f"$(cat {shlex.quote(str(shown(path)))})"

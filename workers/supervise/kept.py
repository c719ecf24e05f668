"""How is a secret made once and kept? Django-free, so that the settings can use it."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path


def keep_secret(path: Path, *, prefix: str = "", length_bytes: int = 48) -> tuple[str, bool]:
    """The secret in ``path`` and whether it was made just now; mode 0600.

    It is complete before it can be seen, so that all who start at the same moment agree on it.

    Raises:
        ValueError: the file is there and empty.
    """
    is_new = False
    if not path.exists():
        handle, draft = tempfile.mkstemp(prefix=".draft-", dir=path.parent)  # mkstemp gives mode 0600
        try:
            with os.fdopen(handle, "w") as file:
                file.write(prefix + secrets.token_urlsafe(length_bytes))
            os.link(draft, path)
            is_new = True
        except FileExistsError:
            pass  # another process was first
        finally:
            os.unlink(draft)
    value = path.read_text().strip()
    if not value:
        raise ValueError(f"{path} is empty; remove it to have a new secret made")
    return value, is_new

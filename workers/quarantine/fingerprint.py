"""Which failures have the same cause? Same error, same own frame, same message but for its numbers."""

from __future__ import annotations

import hashlib
import re

HEX = re.compile(
    r"\b(?:0x[0-9a-f]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12,})\b", re.IGNORECASE
)
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
QUOTED = re.compile(r"'[^']{1,200}'|\"[^\"]{1,200}\"")
FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+, in (?P<name>.+)$', re.MULTILINE)
NOT_OWN = ("site-packages", "dist-packages", "/lib/python", "<frozen", "<string>")
MESSAGE_CHARS = 300  # of the first line; what follows differs from one failure to the next


def fingerprint(*, reason: str, error_type: str, message: str, traceback: str, task: str) -> str:
    """Sixteen hex digits, equal for equal causes; the task is part of it, lines and numbers are not."""
    parts = (reason, task, error_type, last_own_frame(traceback), strip_numbers(message))
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def last_own_frame(traceback: str) -> str:
    """file:function of the last frame outside libraries; the very last one if all are libraries'."""
    frames = [(m["file"], m["name"]) for m in FRAME.finditer(traceback[-100_000:])]
    own = [frame for frame in frames if not any(mark in frame[0] for mark in NOT_OWN)]
    chosen = own[-1] if own else frames[-1] if frames else None
    return f"{chosen[0].rsplit('/', 1)[-1]}:{chosen[1]}" if chosen else ""


def strip_numbers(message: str) -> str:
    first = message.strip().split("\n", 1)[0][:MESSAGE_CHARS]
    return NUMBER.sub("#", QUOTED.sub("'#'", HEX.sub("#", first)))

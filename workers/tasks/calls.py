"""How does a job make one bounded HTTP call to a checked target?"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import httpx

from .targets import Target

#: Seconds for connecting, and for each read and write.
CONNECT_S = 3.0
TRANSFER_S = 10.0
#: What is read of an answer, in bytes; the rest is left.
MAX_ANSWER_BYTES = 65_536
#: Answers after which a later try can succeed.
WORTH_RETRYING = frozenset({408, 425, 429, 500, 502, 503, 504})


class AnswerRefused(Exception):
    """The other side answered that it does not want this; trying again would not help."""


class AnswerTransient(Exception):
    """The other side cannot serve now."""


def call(
    target: Target,
    *,
    method: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = TRANSFER_S,
) -> tuple[int, bytes]:
    """Status and at most ``MAX_ANSWER_BYTES`` of the answer.

    Connects to the address that was checked, follows no redirect (it could lead inside) and reads no
    proxy settings.

    Raises:
        AnswerTransient, httpx.TransportError: worth another try.
        AnswerRefused: for good.
    """
    give_up_at = time.monotonic() + 2 * timeout_s  # a timeout of each read does not bound a slow drip
    client = httpx.Client(
        timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        follow_redirects=False,
        trust_env=False,
        verify=_tls_context(),
    )
    sent = {
        **(headers or {}),
        "Host": target.host_header,
        "User-Agent": "sluicegate",
        "Accept-Encoding": "identity",  # a packed answer could unpack to far more than the limit
    }
    with (
        client,
        client.stream(
            method, target.connect_url, json=body, headers=sent, extensions={"sni_hostname": target.host}
        ) as answer,
    ):
        content = b""
        for chunk in answer.iter_raw(16_384):
            content += chunk
            if len(content) >= MAX_ANSWER_BYTES:
                break
            if time.monotonic() > give_up_at:
                raise AnswerTransient(f"{target.host} took more than {2 * timeout_s:.0f} s")
    content = content[:MAX_ANSWER_BYTES]
    if answer.status_code in WORTH_RETRYING:
        raise AnswerTransient(f"{target.host} answered {answer.status_code}")
    if not answer.is_success:
        raise AnswerRefused(f"{target.host} answered {answer.status_code}")
    return answer.status_code, content


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    """Made once a process: reading the authorities' certificates costs more than most calls do."""
    return httpx.create_ssl_context(trust_env=False)

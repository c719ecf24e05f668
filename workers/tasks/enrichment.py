"""How is an event completed with what a downstream service knows?"""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
from celery import shared_task

from .calls import AnswerTransient, call
from .places import sink_url
from .targets import check_target

_DOWNSTREAM = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)


@shared_task(
    name="events.enrich",
    autoretry_for=(httpx.TransportError, AnswerTransient),
    retry_backoff=1,
    retry_backoff_max=30,
    retry_jitter=True,
    max_retries=3,
)
def enrich(event: dict[str, Any], *, downstream: str = "profiles", timeout_s: float = 8.0) -> dict[str, Any]:
    """``event`` with the answer of ``downstream`` beside it."""
    if not _DOWNSTREAM.fullmatch(downstream):
        raise ValueError("downstream must be a short name of small letters, digits, - and _")
    base = sink_url()
    if base is None:
        raise RuntimeError("no downstream is configured; set SLUICEGATE_SINK_URL")
    target = check_target(f"{base.rstrip('/')}/enrich/{downstream}")
    _, content = call(target, method="POST", body=event, timeout_s=timeout_s)
    return {**event, "enriched": {downstream: json.loads(content)}}

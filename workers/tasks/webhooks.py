"""How is an event delivered to somebody's HTTP endpoint?"""

from __future__ import annotations

from typing import Any

import httpx
from celery import Task, shared_task

from .calls import AnswerTransient, call
from .targets import check_target


@shared_task(
    name="webhooks.deliver",
    bind=True,
    autoretry_for=(httpx.TransportError, AnswerTransient),
    retry_backoff=2,
    retry_backoff_max=120,
    retry_jitter=True,
    max_retries=4,
)
def deliver(self: Task, url: str, event: dict[str, Any], *, timeout_s: float = 10.0) -> dict[str, Any]:
    """POST ``event`` as JSON. The header Sluicegate-Delivery is the same at each try: the receiver's
    key to drop what it has already."""
    if not 0 < timeout_s <= 30:
        raise ValueError(f"timeout_s is {timeout_s}; it must be above 0 and at most 30")
    target = check_target(url)
    status, _ = call(
        target,
        method="POST",
        body=event,
        headers={"Sluicegate-Delivery": self.request.id or ""},
        timeout_s=timeout_s,
    )
    return {"status": status, "host": target.host, "tries": self.request.retries + 1}

"""How is a job offered without going through a Celery producer (the HTTP door, replays)?"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from celery import Celery
from kombu.serialization import dumps as serialize

from ..store.offers import Offer
from .messages import CLASS_HEADER, GATE_HEADER, offer_from_message


def build_offer(
    app: Celery,
    task: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    queue: str,
    tenant: str,
    op_id: str | None = None,
    countdown_s: float | None = None,
    deadline_ms: int | None = None,
    cost_ms: int | None = None,
    offered_ago_ms: int = 0,
    ordering_key: str | None = None,
    coalesce_key: str | None = None,
    source_sequence: int | None = None,
    replay_of: str | None = None,
    replay_until_at_ms: int | None = None,
    idempotency_key: str | None = None,
    idempotency_hash: str | None = None,
    tags: Sequence[str] = (),
    trace: str | None = None,
    payload_class: str | None = None,
    headers: Mapping[str, Any] | None = None,
) -> Offer:
    """The offer that ``app.send_task(task, args, kwargs)`` would make, in the app's own message format.

    Raises:
        OfferError: a name or a time makes no sense.
        kombu.exceptions.EncodeError: the arguments cannot be serialized.
    """
    minted = op_id is None
    op_id = op_id or str(uuid.uuid4())
    message = app.amqp.create_task_message(op_id, task, list(args), dict(kwargs or {}), countdown=countdown_s)
    content_type, content_encoding, body = serialize(message.body, app.conf.task_serializer)
    raw = body.encode() if isinstance(body, str) else body
    facts = {
        "cost_ms": cost_ms,
        "deadline_ms": deadline_ms,
        "offered_ago_ms": offered_ago_ms,
        "ordering_key": ordering_key,
        "coalesce_key": coalesce_key,
        "downstream": getattr(app.tasks.get(task), "downstream", None),
        "source_sequence": source_sequence,
        "replay_of": replay_of,
        "replay_until_at_ms": replay_until_at_ms,
        "idempotency_key": idempotency_key,
        "idempotency_hash": idempotency_hash,
        "tags": list(tags),
        "trace": trace,
    }
    marked = {CLASS_HEADER: payload_class} if payload_class else {}
    envelope = {
        "body": base64.b64encode(raw).decode(),
        "content-type": content_type,
        "content-encoding": content_encoding,
        "headers": {**message.headers, **(headers or {}), "tenant": tenant, GATE_HEADER: facts, **marked},
        "properties": {**message.properties, "delivery_mode": 2, "priority": 0, "body_encoding": "base64"},
    }
    return offer_from_message(envelope, queue, now=datetime.now(UTC), minted=minted)

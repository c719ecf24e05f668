"""What does a Celery message say that the gate needs to know?"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ..exceptions import OfferError
from ..states import DEFAULT_TENANT
from ..store.offers import Offer
from . import envelope

#: Longest tenant name, task name or id that is taken, in characters.
MAX_NAME = 200

#: Headers through which a Celery producer speaks to the gate, all optional:
#: tenant; and sluicegate: a map of cost_ms, deadline_ms, offered_ago_ms, idempotency_key, ...
GATE_HEADER = "sluicegate"


def offer_from_message(message: Mapping[str, Any], queue: str, *, now: datetime) -> Offer:
    """The offer that a message of Celery's protocol 2 makes.

    ``now`` is the sender's own time: an ETA counts as a distance from it, so that a skewed clock does
    not move the due time.

    Raises:
        OfferError: an id, a task name, an ETA or an expiry is missing or makes no sense.
    """
    headers = message.get("headers")
    if not isinstance(headers, Mapping):
        raise OfferError("headers", "missing or not a map", "send a Celery task message (protocol 2)")
    if not isinstance(message.get("properties"), Mapping):
        raise OfferError("properties", "missing or not a map", "send a Celery task message (protocol 2)")
    op_id, task = headers.get("id"), headers.get("task")
    if not isinstance(op_id, str) or not op_id or len(op_id) > MAX_NAME:
        raise OfferError("headers.id", "missing, empty or too long", f"give 1 to {MAX_NAME} characters")
    if not isinstance(task, str) or not task or len(task) > MAX_NAME:
        raise OfferError("headers.task", "missing, empty or too long", f"give 1 to {MAX_NAME} characters")
    tenant = headers.get("tenant") or DEFAULT_TENANT
    if not isinstance(tenant, str) or len(tenant) > MAX_NAME:
        raise OfferError("headers.tenant", "not a text or too long", f"give at most {MAX_NAME} characters")
    delay_ms, deadline_ms = 0, None
    if headers.get("eta"):
        delay_ms = max(0, _distance_ms("headers.eta", headers["eta"], now))
    if headers.get("expires"):
        deadline_ms = _distance_ms("headers.expires", headers["expires"], now)
    said = headers.get(GATE_HEADER)
    facts = said if isinstance(said, Mapping) else {}
    if facts.get("deadline_ms") is not None:
        deadline_ms = int(facts["deadline_ms"])
    steps = (headers.get("retries"), headers.get("replaced_task_nesting"))
    generation = sum(step for step in steps if isinstance(step, int))
    links = message["properties"].get("sluicegate_links")
    small = envelope.shrink(message)
    small["p"].pop("sluicegate_links", None)
    small["h"].pop(GATE_HEADER, None)
    return Offer(
        id=op_id,
        task=task,
        queue=queue,
        payload=json.dumps(small, separators=(",", ":"), default=_encode).encode("utf-8", "surrogatepass"),
        tenant=tenant,
        cost_ms=facts.get("cost_ms"),
        delay_ms=delay_ms,
        deadline_ms=deadline_ms,
        offered_ago_ms=int(facts.get("offered_ago_ms") or 0),
        retries=generation,
        links=tuple(links) if links is not None else find_links(message),
        ordering_key=facts.get("ordering_key"),
        coalesce_key=facts.get("coalesce_key"),
        source_sequence=facts.get("source_sequence"),
        replay_of=facts.get("replay_of"),
        replay_until_at_ms=facts.get("replay_until_at_ms"),
        idempotency_key=facts.get("idempotency_key"),
        idempotency_hash=facts.get("idempotency_hash"),
        tags=tuple(facts.get("tags") or ()),
        trace=facts.get("trace"),
    )


def _encode(value: Any) -> Any:
    # What kombu's own encoder writes for values that plain JSON lacks.
    from kombu.utils.json import JSONEncoder

    return JSONEncoder().default(value)


def _distance_ms(field: str, value: Any, now: datetime) -> int:
    """Milliseconds from ``now`` to a time given as ISO 8601 text, a datetime or seconds from now."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise OfferError(field, "not a finite number", "give seconds from now or an ISO 8601 time")
        return int(value * 1000)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as exc:
            raise OfferError(field, f"{value[:40]!r} is not a time", "give an ISO 8601 time") from exc
    if not isinstance(value, datetime):
        raise OfferError(field, f"a {type(value).__name__} is not a time", "give an ISO 8601 time")
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    distance = (moment - now).total_seconds()
    if abs(distance) > 10 * 366 * 86400:
        raise OfferError(field, "more than ten years away", "give a nearer time")
    return int(distance * 1000)


def find_links(message: Mapping[str, Any]) -> tuple[str, ...]:
    """Ids of the later links (chain, callbacks, errbacks, chord) that a message brings along.

    Reads the body only where the embedded canvas is not empty, and gives nothing for a body that it
    cannot read: the worker will say what is wrong with that.
    """
    body = message.get("body")
    try:
        if message["properties"].get("body_encoding") == "base64" and isinstance(body, str):
            raw = base64.b64decode(body)
            if raw.endswith(b'{"callbacks": null, "errbacks": null, "chain": null, "chord": null}]'):
                return ()
            body = json.loads(raw)
        elif isinstance(body, (str, bytes)):
            body = json.loads(body)
        return tuple(links_of_embed(body[2] if body else None))
    except (ValueError, TypeError, KeyError, IndexError):
        return ()


def links_of_embed(embed: Any) -> list[str]:
    """Task ids of every signature inside a message's embedded canvas, each once."""
    if not isinstance(embed, Mapping):
        return []
    found: dict[str, None] = {}
    for part in ("chain", "callbacks", "errbacks", "chord"):
        for op_id in _signature_ids(embed.get(part)):
            found[op_id] = None
    return list(found)


def _signature_ids(node: Any) -> Iterator[str]:
    if isinstance(node, (list, tuple)):
        for item in node:
            yield from _signature_ids(item)
    elif isinstance(node, Mapping) and ("task" in node or "options" in node):
        options = node.get("options") or {}
        op_id = options.get("task_id")
        if isinstance(op_id, str):
            yield op_id
        for part in ("chain", "link", "link_error", "chord"):
            yield from _signature_ids(options.get(part))
        kwargs = node.get("kwargs") or {}
        if isinstance(kwargs, Mapping) and node.get("subtask_type"):
            for part in ("tasks", "header", "body"):
                yield from _signature_ids(kwargs.get(part))

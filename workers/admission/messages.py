"""What does a Celery message say that the gate needs to know?"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Any

from ..exceptions import OfferError
from ..privacy.classes import PAYLOAD_CLASSES, is_payload_class
from ..privacy.seal import keyring
from ..states import DEFAULT_TENANT
from ..store.offers import Offer
from . import envelope

#: Longest tenant name, task name or id that is taken, in characters.
MAX_NAME = 200

#: Farthest time that makes sense, in seconds.
MAX_AWAY_S = 10 * 366 * 86400

#: Headers through which a Celery producer speaks to the gate, all optional:
#: tenant; and sluicegate: a map of cost_ms, deadline_ms, offered_ago_ms, idempotency_key, ...
GATE_HEADER = "sluicegate"
#: And payload_class, one of ``privacy.classes.PAYLOAD_CLASSES``; kept on the record, put back at the claim.
CLASS_HEADER = "payload_class"


#: Longest key or hash that is taken, in characters.
MAX_KEY = 500
#: Most tags of a job, and the longest: a deletion names a tag, and takes no longer one.
MAX_TAGS, MAX_TAG = 100, 100
#: Largest cost of one job that is taken, a week in ms: sums over a queue must stay exact.
MAX_COST_MS = 7 * 86_400_000
#: More often nothing was ever retried; the count of tries is a whole number in the scripts.
MAX_RETRIES = 2**31 - 1
#: Whole numbers beyond this are not exact in the scripts (Lua has doubles only).
MAX_WHOLE = 2**53


def offer_from_message(
    message: Mapping[str, Any], queue: str, *, now: datetime, minted: bool = False
) -> Offer:
    """The offer that a message of Celery's protocol 2 makes.

    ``now`` is the sender's own time: an ETA counts as a distance from it, so that a skewed clock does
    not move the due time. ``minted`` as in ``Offer``.

    Raises:
        OfferError: an id, a task name, an ETA, an expiry or a fact is missing or makes no sense.
    """
    try:
        return _read_offer(message, queue, now, minted)
    except OfferError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as exc:
        # Whatever else a stranger's message holds is its own fault, never the reader's end.
        raise OfferError("message", f"{type(exc).__name__}: {exc}", "send a Celery task message") from exc


def _read_offer(message: Mapping[str, Any], queue: str, now: datetime, minted: bool) -> Offer:
    headers = message.get("headers")
    if not isinstance(headers, Mapping):
        raise OfferError("headers", "missing or not a map", "send a Celery task message (protocol 2)")
    if not isinstance(message.get("properties"), Mapping):
        raise OfferError("properties", "missing or not a map", "send a Celery task message (protocol 2)")
    op_id = _name("headers.id", headers.get("id"))
    task = _name("headers.task", headers.get("task"))
    tenant = _name("headers.tenant", headers.get("tenant") or DEFAULT_TENANT)
    payload_class = headers.get(CLASS_HEADER)
    if payload_class is not None and not is_payload_class(payload_class):
        raise OfferError(CLASS_HEADER, "is not a payload class", f"use one of {', '.join(PAYLOAD_CLASSES)}")
    delay_ms, deadline_ms = 0, None
    if headers.get("eta"):
        delay_ms = max(0, _distance_ms("headers.eta", headers["eta"], now))
    if headers.get("expires"):
        deadline_ms = _distance_ms("headers.expires", headers["expires"], now)
    _check_shape(headers)
    said = headers.get(GATE_HEADER)
    facts = said if isinstance(said, Mapping) else {}
    if facts.get("deadline_ms") is not None:
        deadline_ms = _whole(facts, "deadline_ms", least=-MAX_AWAY_S * 1000, most=MAX_AWAY_S * 1000)
    generation = sum(_steps(name, headers.get(name)) for name in ("retries", "replaced_task_nesting"))
    links = message["properties"].get("sluicegate_links")
    small = envelope.shrink(message)
    small["p"].pop("sluicegate_links", None)
    small["h"].pop(GATE_HEADER, None)
    small["h"].pop(CLASS_HEADER, None)
    told = _read_facts(facts) if facts else {}
    if told.get("downstream") is not None:
        # The one fact that a retry and a replay must find again in the message itself.
        small["h"][GATE_HEADER] = {"downstream": told["downstream"]}
    return Offer(
        id=op_id,
        task=task,
        queue=queue,
        payload=keyring().seal(
            json.dumps(small, separators=(",", ":"), default=_encode).encode("utf-8", "surrogatepass"), op_id
        ),
        tenant=tenant,
        delay_ms=delay_ms,
        deadline_ms=deadline_ms,
        retries=generation,
        parent=_parent(headers) if generation else None,
        links=_texts("links", links) if links is not None else find_links(message),
        payload_class=payload_class,
        minted=minted,
        **told,
    )


def _read_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a producer may say of an offer beside Celery's own headers, by the names of ``Offer``."""
    return {
        "cost_ms": _whole(facts, "cost_ms", most=MAX_COST_MS),
        "offered_ago_ms": _whole(facts, "offered_ago_ms", most=MAX_AWAY_S * 1000) or 0,
        "ordering_key": _text(facts, "ordering_key"),
        "coalesce_key": _text(facts, "coalesce_key"),
        "downstream": _text(facts, "downstream"),
        "source_sequence": _sequence(facts),
        "replay_of": _text(facts, "replay_of"),
        "replay_until_at_ms": _whole(facts, "replay_until_at_ms"),
        "idempotency_key": _text(facts, "idempotency_key"),
        "idempotency_hash": _text(facts, "idempotency_hash"),
        "tags": _tags(facts.get("tags") or ()),
        "trace": _text(facts, "trace"),
        "ticket": _text(facts, "ticket"),
    }


def _check_shape(headers: Mapping[str, Any]) -> None:
    """What a worker takes on trust and would end over: limits that are no numbers, names that are no text."""
    limits = headers.get("timelimit")
    if limits is not None and not (
        isinstance(limits, (list, tuple)) and len(limits) == 2 and all(map(_is_limit, limits))
    ):
        raise OfferError("headers.timelimit", "is not a pair of numbers", "give [hard, soft] in s, or nulls")
    for name in ("shadow", "root_id", "parent_id", "group"):
        if not isinstance(headers.get(name), (str, NoneType)):
            raise OfferError(f"headers.{name}", "is not a text", "give a text or null")


def _is_limit(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value is None or (is_number and 0 <= value < MAX_AWAY_S)


def _parent(headers: Mapping[str, Any]) -> str | None:
    value = headers.get("parent_id")
    return value if isinstance(value, str) and len(value) <= MAX_NAME else None


def _name(field: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
        raise OfferError(field, "missing, empty or too long", f"give 1 to {MAX_NAME} characters")
    return _readable(field, value)


def _readable(field: str, value: str) -> str:
    """The text, if it can be written as UTF-8: a name that cannot would be another one on its way back."""
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise OfferError(field, "holds half a character", "give text that UTF-8 can write") from exc
    return value


def _text(facts: Mapping[str, Any], name: str) -> str | None:
    value = facts.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_KEY:
        # An empty key would be one key for all that have none.
        raise OfferError(name, "not a text, empty or too long", f"give 1 to {MAX_KEY} characters, or null")
    return _readable(name, value)


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
        raise OfferError(name, "not a list of texts", "give a list of texts")
    return tuple(_readable(name, value) for value in values)


def _tags(values: Any) -> tuple[str, ...]:
    tags = _texts("tags", values)
    if len(tags) > MAX_TAGS or not all(0 < len(tag) <= MAX_TAG for tag in tags):
        raise OfferError(
            "tags", "too many, empty or too long", f"give at most {MAX_TAGS}, of 1 to {MAX_TAG} characters"
        )
    return tags


def _whole(facts: Mapping[str, Any], name: str, *, least: int = 0, most: int = MAX_WHOLE - 1) -> int | None:
    value = facts.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise OfferError(name, "not a number, or out of range", f"give a whole number, {least} to {most}")
    return int(value)


def _sequence(facts: Mapping[str, Any]) -> int | None:
    value = _whole(facts, "source_sequence")
    if value is not None and value != facts["source_sequence"]:
        raise OfferError("source_sequence", "not a whole number", "number the states of a key 0, 1, 2, ...")
    return value


def _steps(name: str, value: Any) -> int:
    """How often an id was published again, by one of two headers that count it; what is no number is 0."""
    if not isinstance(value, int):
        return 0
    if not 0 <= value <= MAX_RETRIES:
        raise OfferError(f"headers.{name}", "out of range", f"give a whole number, 0 to {MAX_RETRIES}")
    return value


def _encode(value: Any) -> Any:
    # What kombu's own encoder writes for values that plain JSON lacks.
    from kombu.utils.json import JSONEncoder

    return JSONEncoder().default(value)


def _distance_ms(field: str, value: Any, now: datetime) -> int:
    """Milliseconds from ``now`` to a time given as ISO 8601 text, a datetime or seconds from now."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not abs(value) <= MAX_AWAY_S:
            raise OfferError(field, "not within ten years", "give seconds from now or an ISO 8601 time")
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
    if abs(distance) > MAX_AWAY_S:
        raise OfferError(field, "more than ten years away", "give a nearer time")
    return int(distance * 1000)


def kept_downstream(headers: Mapping[str, Any]) -> str | None:
    """The downstream that a stored message's own headers name."""
    facts = headers.get(GATE_HEADER)
    named = facts.get("downstream") if isinstance(facts, Mapping) else None
    return named if isinstance(named, str) and len(named) <= MAX_KEY else None


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
    except (ValueError, TypeError, LookupError, RecursionError):
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

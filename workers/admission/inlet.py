"""How do jobs that a stock producer pushed onto a plain list come through the gate?

A producer on plain ``redis://`` pushes onto the lists that bear the queues' names. Each message is
admitted under the same bounds (what finds no room stays where it is, counted as ``inlet``), or goes to
quarantine with its raw bytes when nothing can be made of it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..exceptions import OfferError
from ..store import Offer, Store
from ..store.commands import INLET_SUFFIXES
from .messages import offer_from_message

#: Refusals that waiting does not change. A suspended tenant's jobs stay on the list.
NEVER = frozenset({"size", "deadline", "duplicate", "coalescing", "encryption"})


@dataclass(frozen=True, slots=True)
class InletReport:
    """What one pass did."""

    admitted: int = 0
    held: int = 0
    left: int = 0


def drain_inlet(store: Store, queues: Iterable[str], *, limit: int = 100) -> InletReport:
    """Takes messages from the stock lists of these queues until they are empty, full or ``limit`` is reached.

    Raises:
        StoreUnavailable: Redis cannot serve; nothing is lost, the next pass goes on.
    """
    admitted = held = left = seen = 0
    for queue in queues:
        for suffix in INLET_SUFFIXES:
            key = queue + suffix
            while seen < limit:
                raw = store.peek_inlet(key)
                if raw is None:
                    break
                seen += 1
                try:
                    offer = read_message(raw, queue)
                except OfferError as exc:
                    if store.hold_unreadable(
                        key, raw, queue=queue, error_type="OfferError", message=str(exc)
                    ):
                        held += 1
                    continue
                verdicts = store.admit([offer], inlet=(key, raw))
                if not verdicts:
                    continue  # another pass took it
                verdict = verdicts[0]
                if verdict.accepted:
                    admitted += verdict.status != "shed"
                elif verdict.reason in NEVER:
                    # It would stand before all others for ever.
                    said = f"the queue would never accept it: {verdict.reason}"
                    if store.hold_unreadable(
                        key, raw, queue=queue, error_type="AdmissionRefused", message=said
                    ):
                        held += 1
                else:
                    left += 1
                    break
    return InletReport(admitted, held, left)


def read_message(raw: bytes, queue: str) -> Offer:
    """The offer that a raw message of a stock list makes, checked as far as a worker would read it.

    Raises:
        OfferError: the envelope, the body, the headers or a time in them cannot be read.
    """
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise OfferError("message", f"not JSON: {exc}", "push Celery task messages only") from exc
    if not isinstance(message, dict):
        raise OfferError("message", "not a JSON object", "push Celery task messages only")
    offer = offer_from_message(message, queue, now=datetime.now(UTC))
    _check_body(message)
    return offer


def _check_body(message: Mapping[str, Any]) -> None:
    """A body that would take a worker down is found here."""
    content_type = message.get("content-type")
    if content_type != "application/json":
        raise OfferError("content-type", f"{str(content_type)[:60]!r} is not accepted", "serialize as JSON")
    body = message.get("body")
    try:
        if message["properties"].get("body_encoding") == "base64":
            body = base64.b64decode(body or "", validate=True)
        parsed = json.loads(body or "")
    except (binascii.Error, TypeError, ValueError, RecursionError) as exc:
        raise OfferError("body", f"cannot be decoded: {exc}", "serialize as JSON, in base64") from exc
    if not _is_body(parsed):
        raise OfferError("body", "not [args, kwargs, embed]", "send a Celery task message (protocol 2)")


def _is_body(parsed: Any) -> bool:
    if not isinstance(parsed, list) or len(parsed) != 3:
        return False
    args, kwargs, embed = parsed
    return isinstance(args, list) and isinstance(kwargs, dict) and isinstance(embed, (dict, type(None)))

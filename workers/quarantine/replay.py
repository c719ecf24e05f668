"""How is a held job offered again, and when must it wait? Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ..admission.messages import kept_downstream
from ..privacy.seal import keyring
from ..store import Offer

#: A retry counter or an expiry that ran out before would end the replay at once.
FORGOTTEN_HEADERS = ("retries", "expires", "eta")
WAITS_WHILE = ("past_guard", "past_ceiling", "at_bound")  # live work goes first
FAILURES_IN_A_ROW = 5
PASSING_REASONS = (
    "count",
    "bytes",
    "cost",
    "age",
    "tenant",
    "rate",
    "downstream",
    "waiting_room",
    "mode",
    "unavailable",
)


def replay_id(batch_id: uuid.UUID, op_id: str) -> str:
    """The same id however often a batch is taken up again: the gate then knows it already."""
    return str(uuid.uuid5(batch_id, op_id))


def renew_payload(payload: bytes) -> bytes | None:
    """The stored message as a fresh one; None where it is no message that could run."""
    try:
        message = json.loads(payload)
    except ValueError:
        return None
    if not isinstance(message, dict) or not isinstance(message.get("h"), dict) or "b" not in message:
        return None
    headers = {name: value for name, value in message["h"].items() if name not in FORGOTTEN_HEADERS}
    return json.dumps({**message, "h": headers}, separators=(",", ":")).encode("utf-8", "surrogatepass")


def make_offer(
    *,
    batch_id: uuid.UUID,
    op_id: str,
    task: str,
    queue: str,
    tenant: str,
    payload: bytes,
    replay_until_at_ms: int | None,
    payload_class: str | None = None,
    tags: Sequence[str] = (),
) -> Offer | None:
    """The offer of a replay; None where the stored message cannot be read.

    Raises:
        ValueError: it cannot be decrypted here; the message says which key it needs.
    """
    new_id, keys = replay_id(batch_id, op_id), keyring()
    renewed = renew_payload(keys.open(payload, op_id))
    if renewed is None:
        return None
    return Offer(
        id=new_id,
        task=task,
        queue=queue,
        payload=keys.seal(renewed, new_id),
        tenant=tenant,
        replay_of=op_id,
        replay_until_at_ms=replay_until_at_ms,
        payload_class=payload_class,
        tags=tuple(tags),
        downstream=kept_downstream(json.loads(renewed)["h"]),
    )


def why_wait(queue: str, frame: Mapping[str, Any]) -> str:
    """Why replays into a queue must wait just now; empty when they may go on."""
    row = next((row for row in frame["queues"] if row["name"] == queue), None)
    if row is None:
        return ""
    if row["mode"] in ("draining", "failed"):
        return f"{queue} is {row['mode']}"
    if row["state"] in WAITS_WHILE:
        return f"{queue} is {row['state'].replace('_', ' ')}: live work goes first"
    return ""


def downstream_rate(queue: str, frame: Mapping[str, Any]) -> float | None:
    """Jobs a second that a queue's downstream bears: calls at a time over the time that one takes.

    None where the queue has no downstream, or where nothing has been measured of it yet.
    """
    rows: dict[str, Any] = {row["name"]: row for row in frame["queues"]}
    row = rows.get(queue, {})
    found = next((d for d in frame.get("downstreams") or () if d["name"] == row.get("downstream")), None)
    if found is None or not found["mean_ms"]:
        return None
    return float(found["limit"]) * 1000 / float(found["mean_ms"])


def affordable(*, rate_per_s: float, since_s: float, most: int = 100) -> int:
    """How many may go after `since_s` seconds at the stated rate."""
    return min(most, int(since_s * rate_per_s))

"""How is a Celery message kept small in Redis, and made whole again for the worker?

A task message of Celery's protocol 2 repeats its id up to four times, names two dozen headers that
hold nothing, and carries delivery facts that the gate knows better. ``shrink`` leaves out exactly
what ``restore`` can put back; what does not fit the usual form is kept as it is. The stored text stays
JSON that a person can read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..privacy.classes import PUBLIC
from ..privacy.redact import REDACTED, scrub_text

#: Headers at these values are left out and put back.
_HEADERS: dict[str, Any] = {
    "lang": "py",
    "shadow": None,
    "eta": None,
    "expires": None,
    "group": None,
    "group_index": None,
    "retries": 0,
    "timelimit": [None, None],
    "parent_id": None,
    "argsrepr": "()",
    "kwargsrepr": "{}",
    "ignore_result": False,
    "replaced_task_nesting": 0,
    "stamped_headers": None,
    "stamps": {},
}
_PROPERTIES: dict[str, Any] = {"delivery_mode": 2, "priority": 0, "body_encoding": "base64"}
_TOP: dict[str, Any] = {"content-type": "application/json", "content-encoding": "utf-8"}

_ABSENT = object()


def shrink(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message without what ``restore`` puts back. Keys: b body, h headers, p properties, and the rest.

    ``n`` lists usual headers that this message does not have, so that restoring adds none.
    """
    headers, properties = message["headers"], message["properties"]
    op_id = headers["id"]
    small_headers = {}
    for name, value in headers.items():
        usual = _HEADERS.get(name, _ABSENT)
        if name == "id" or (name == "root_id" and value == op_id):
            continue
        if usual is _ABSENT or value != usual or type(value) is not type(usual):
            small_headers[name] = value
    small_properties = {}
    for name, value in properties.items():
        if name in ("delivery_tag", "delivery_info") or (name == "correlation_id" and value == op_id):
            continue
        usual = _PROPERTIES.get(name, _ABSENT)
        if usual is _ABSENT or value != usual:
            small_properties[name] = value
    out: dict[str, Any] = {"b": message["body"], "h": small_headers, "p": small_properties}
    for name, value in message.items():
        if name not in ("body", "headers", "properties") and _TOP.get(name, _ABSENT) != value:
            out[name] = value
    absent = [name for name in (*_HEADERS, "root_id") if name not in headers]
    if absent:
        out["n"] = absent
    return out


def restore(
    small: Mapping[str, Any],
    *,
    op_id: str,
    task: str,
    queue: str,
    delivery_tag: str,
    epoch: int,
    payload_class: str = PUBLIC,
) -> dict[str, Any]:
    """The message that Celery's worker expects.

    ``task`` is the operation's by its record, which may have been accepted as a cheaper one than its message
    asks for.

    An ETA is left out: what a claim hands over is due, and a slow clock must not hold it again in a
    worker's memory. Of the arguments Celery shows, in logs, events and ``inspect``, what their class allows.
    """
    absent = small.get("n", ())
    headers = {name: value for name, value in _HEADERS.items() if name not in absent}
    if "root_id" not in absent:
        headers["root_id"] = op_id
    headers.update(small["h"])
    headers["id"] = op_id
    if "task" in headers:
        headers["task"] = task
    headers["eta"] = None
    headers["sluicegate_epoch"] = epoch
    headers["sluicegate_taken_at"] = time.time()
    if payload_class != PUBLIC:
        headers["argsrepr"] = headers["kwargsrepr"] = REDACTED
    else:
        for name in ("argsrepr", "kwargsrepr"):
            if isinstance(headers.get(name), str):
                headers[name] = scrub_text(headers[name])
    headers["payload_class"] = payload_class
    properties = {**_PROPERTIES, "correlation_id": op_id, **small["p"]}
    properties["delivery_tag"] = delivery_tag
    properties["delivery_info"] = {"exchange": "", "routing_key": queue}
    message: dict[str, Any] = {"body": small["b"], "headers": headers, "properties": properties, **_TOP}
    for name, value in small.items():
        if name not in ("b", "h", "p", "n"):
            message[name] = value
    return message

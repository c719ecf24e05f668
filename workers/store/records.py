"""What does the gate know of one operation?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..privacy.classes import DEFAULT_CLASS
from ..privacy.errors import sealed_of
from .offers import WAITING_STATES, status_of


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as its record tells; times in ms by Redis's clock, None where not reached."""

    id: str
    task: str
    queue: str
    tenant: str
    status: str
    phase: str | None
    attempts: int
    deliveries: int
    lost_count: int
    times: dict[str, int | None]
    bytes: int
    cost_ms: int
    due_at_ms: int | None = None
    deadline_at_ms: int | None = None
    error: dict[str, str] | None = None
    result_repr: str | None = None
    quarantined: bool = False
    quarantine_reason: str | None = None
    cancel_requested_by: str | None = None
    replay_of: str | None = None
    replayed_as: str | None = None
    superseded_by: str | None = None
    ordering_key: str | None = None
    downstream: str | None = None
    held_back_by: str | None = None
    replay_until_at_ms: int | None = None
    worker: str | None = None
    epoch: int | None = None
    tags: tuple[str, ...] = ()
    trace: str | None = None
    payload_class: str = DEFAULT_CLASS
    degraded_from: dict[str, str] | None = None
    refused_by: str | None = None  # the bound, of an offer that was dropped without an error
    deletion: str | None = None


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """A failed job, held in Redis until the recorder has copied it."""

    id: str
    task: str
    queue: str
    tenant: str
    reason: str
    error_type: str
    message: str
    traceback: str
    payload: bytes
    attempts: int
    deliveries: int
    times: dict[str, int | None]
    quarantined_at_ms: int
    replay_of: str | None = None
    replay_until_at_ms: int | None = None
    worker: str | None = None
    epoch: int | None = None
    fingerprint: str | None = None
    tags: tuple[str, ...] = field(default=())
    payload_class: str = DEFAULT_CLASS
    words_sealed: bytes = b""  # message and traceback, where their class withholds them


def _times(row: dict[str, Any]) -> dict[str, int | None]:
    accepted = row["a"]
    return {
        "offered_at_ms": row.get("o", accepted),
        "accepted_at_ms": accepted,
        "enqueued_at_ms": row.get("e", accepted),
        "started_at_ms": row.get("st") or row.get("fs"),
        "committed_at_ms": row.get("cm"),
        "reported_at_ms": row.get("rp"),
    }


def parse_operation(op_id: str, row: dict[str, Any]) -> Operation:
    """An operation from its record in ``ops``."""
    state = row["s"]
    phase = state if state in WAITING_STATES else None
    if state == "parked":
        phase = "blocked"
    if state == "leased" and not row.get("st"):
        phase = "reserved"
    return Operation(
        id=op_id,
        task=row["t"],
        queue=row["q"],
        tenant=row["n"],
        status=status_of(state, bool(row.get("st"))),
        phase=phase,
        attempts=row.get("at", 0),
        deliveries=row.get("dl", 0),
        lost_count=row.get("lc", 0),
        times=_times(row),
        bytes=row["b"],
        cost_ms=row["c"],
        due_at_ms=row.get("du"),
        deadline_at_ms=row.get("dd"),
        error=row.get("er") or None,
        result_repr=row.get("rr"),
        quarantined=bool(row.get("qd")),
        quarantine_reason=row.get("qd"),
        cancel_requested_by=row.get("cr"),
        replay_of=row.get("ro"),
        replayed_as=row.get("ra"),
        superseded_by=row.get("sb"),
        ordering_key=row.get("ok"),
        downstream=row.get("kd") or row.get("ds"),
        held_back_by=row.get("pk"),
        replay_until_at_ms=row.get("ru"),
        worker=row.get("w"),
        epoch=row.get("ep"),
        tags=tuple(row.get("tg") or ()),
        trace=row.get("tr"),
        payload_class=row.get("pc") or DEFAULT_CLASS,
        degraded_from=_asked(row.get("df")),
        refused_by=row.get("rf"),
        deletion=row.get("xd"),
    )


def _asked(row: dict[str, str] | None) -> dict[str, str] | None:
    return None if row is None else {"task": row["t"], "queue": row["q"], "reason": row["r"]}


def parse_quarantined(op_id: str, row: dict[str, Any], payload: bytes, at_ms: int) -> QuarantinedRecord:
    """A quarantined job from its record in ``quarantined``."""
    error = row.get("er") or {}
    return QuarantinedRecord(
        id=op_id,
        task=row["t"],
        queue=row["q"],
        tenant=row["n"],
        reason=row["qd"],
        error_type=error.get("type", ""),
        message=error.get("message", ""),
        traceback=error.get("traceback", ""),
        words_sealed=sealed_of(error),
        payload=payload,
        attempts=row.get("at", 0),
        deliveries=row.get("dl", 0),
        times=_times(row) | {"committed_at_ms": at_ms},
        quarantined_at_ms=at_ms,
        replay_of=row.get("ro"),
        replay_until_at_ms=row.get("ru"),
        worker=row.get("w"),
        epoch=row.get("ep"),
        tags=tuple(row.get("tg") or ()),
        payload_class=row.get("pc") or DEFAULT_CLASS,
    )

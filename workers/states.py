"""Which words name the states, modes, reasons and outcomes everywhere else?"""

from __future__ import annotations

from typing import Final

#: Admission modes, mildest first; where two apply the later one in this tuple wins.
MODES: Final = ("normal", "saturated", "draining", "failed")

#: Where a pending operation stands.
PHASES: Final = ("waiting", "delayed", "blocked", "spilled", "reserved")

#: Statuses that are never left.
TERMINAL: Final = ("succeeded", "failed", "expired", "cancelled", "superseded", "shed", "lost")

#: Every status of an operation.
STATUSES: Final = ("pending", "running", *TERMINAL)

#: HTTP status that goes with each reason of a refusal.
REASON_STATUS: Final[dict[str, int]] = {
    "count": 429,
    "bytes": 429,
    "cost": 429,
    "age": 429,
    "tenant": 429,
    "rate": 429,
    "deadline": 429,
    "downstream": 429,
    "waiting_room": 429,
    "mode": 503,
    "unavailable": 503,
    "size": 413,
    "duplicate": 409,
    "encryption": 422,
    "suspended": 403,
    "revoked": 403,
    "coalescing": 422,  # a coalesce_key where the queue's policy has may_coalesce false
}
REASONS: Final = tuple(REASON_STATUS)

#: What no time mends, and what does, in a sentence's own words.
REMEDIES: Final[dict[str, str]] = {
    "encryption": "a secret payload is taken only encrypted: set SLUICEGATE_PAYLOAD_KEYS, for workers too",
    "coalescing": "this queue's jobs add up, so none may take another's place: send no coalesce_key",
}

#: What a worker can say of a delivery that it ends.
OUTCOMES: Final = (
    "succeeded",
    "failed",
    "retry",
    "released",
    "requeued",
    "lost",
    "expired",
    "cancelled",
    "ignored",  # Celery's Ignore: nothing more comes of this delivery; Task.replace() ends so too
)

#: Why a job is in quarantine.
QUARANTINE_REASONS: Final = (
    "failed",
    "worker_lost",
    "time_limit",
    "undecodable",
    "unknown_task",
    "missing_key",
    "rejected",
)

#: Counters of a queue, in the order in which a frame shows them.
TOTALS: Final = (
    "offered",
    "accepted",
    "refused",
    "started",
    "succeeded",
    "failed",
    "expired",
    "cancelled",
    "superseded",
    "shed",
    "lost",
    "quarantined",
    "retried",
    "redelivered",
    "replayed",
    "over_bound",
    "degraded",  # offers to this queue that were accepted as a cheaper task
    "goodput",  # succeeded before their deadline, or without one
    "promised",  # settled, of those accepted under a completion objective and not called off
    "in_objective",  # of these, succeeded in time
)

#: What became of the credits of a queue's producers: granted is the sum of the others.
CREDITS: Final = ("granted", "used", "returned", "expired", "out")

#: What became of a waiting room's tickets: given is the sum of the others and of those that are out.
TICKETS: Final = ("given", "admitted", "expired")

#: The queue that takes what names no queue of its own.
DEFAULT_QUEUE: Final = "normal"
DEFAULT_TENANT: Final = "default"

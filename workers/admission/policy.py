"""What does a queue's policy say, and is it one that can hold?"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from ..exceptions import FieldError
from ..figures import is_number
from ..privacy.classes import DEFAULT_CLASS, PAYLOAD_CLASSES

ON_FULL: Final = ("reject", "block", "drop_newest", "drop_oldest", "coalesce", "sample", "spill", "degrade")
ORDERS: Final = ("fifo", "lifo", "edf")  # lifo applies while saturated only; edf: earliest deadline first
ON_QUARANTINE_FULL: Final = ("drop_oldest", "drop_newest")
MOST_CAPS: Final = 100  # tasks of one queue with a cap of their own
LIMIT_KINDS: Final = ("token_bucket", "leaky_bucket", "fixed_window", "sliding_window")
LIMIT_SCOPES: Final = ("tenant", "key", "queue")
LIMIT_PLACES: Final = ("gate", "local")
BUCKETS: Final = ("token_bucket", "leaky_bucket")
#: A bucket is counted in 1/window_ms of a job (rates.lua): all of it must be exact in a double.
MOST_IN_A_BUCKET: Final = 2**53


#: A queue's name: letters and digits, inside also dots, dashes and underscores. A "|" or ":" would make one
#: queue's keys another's.
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}")


class PolicyError(FieldError):
    """A policy that cannot hold."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One queue's rules. None is "no bound"; counts are jobs, `_s` seconds, `_ms` milliseconds."""

    # Bounds. Count and bytes: waiting and delayed. Cost: waiting. Age: the oldest eligible.
    max_count: int | None = None
    max_bytes: int | None = None
    max_cost_ms: int | None = None
    max_age_s: float | None = None
    max_wait_s: float | None = None
    guard_age_s: float | None = None  # older than this calls for attention
    # At a bound.
    on_full: str = "reject"
    block_s: float | None = None
    sample_rate: float | None = None
    may_coalesce: bool = False
    degrade_to: str | None = None  # the cheaper task, with the same arguments
    degrade_queue: str | None = None  # where it goes, within that queue's bounds; None: it stays
    degrade_reserve: float | None = None  # where it stays: room beyond each bound, a share of it
    spill_max_count: int | None = None  # the spill's own bounds
    spill_max_bytes: int | None = None
    spill_max_age_s: float | None = None  # since acceptance; older ones expire
    waiting_room_max: int | None = None  # tickets that may be out at a time; None: no waiting room
    waiting_room_slot_s: float = 10.0  # how late a ticket's holder may come back
    # Order and share.
    order: str = "fifo"
    strict_rank: int | None = None  # 0 first; None: by weight among the others
    weight: float = 1.0
    reserved_slots: int = 0  # kept free for this queue, as far as one is left for the others
    max_in_flight: int | None = None
    max_in_flight_per_task: Mapping[str, int] | None = None  # task name: most of it running at once
    age_ceiling_s: float | None = None
    tenant_share: float | None = None  # None: 1 with one tenant, 0.8 with more
    codel_target_ms: int | None = None
    codel_interval_ms: int | None = None
    # Modes.
    saturated_share: float = 1.0
    admit_while_draining: bool = False
    high_mark: float = 0.9
    low_mark: float = 0.5
    hold_s: float = 60.0
    # Deliveries.
    max_deliveries: int = 3
    lease_s: float = 10.0
    unknown_task_grace_s: float = 30.0
    # Limits.
    downstream: str | None = None
    rate_limits: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)
    # The promise.
    objective_s: float | None = None
    objective_share: float | None = None
    owner: str | None = None
    payload_class: str = DEFAULT_CLASS  # of what names none
    # Quarantine.
    quarantine_max_count: int | None = 10_000
    quarantine_max_bytes: int | None = 256 * 1024 * 1024
    quarantine_max_age_s: float | None = 30 * 86_400.0
    on_quarantine_full: str = "drop_oldest"

    def as_fields(self) -> dict[str, Any]:
        return {**asdict(self), "rate_limits": [dict(limit) for limit in self.rate_limits]}


FIELDS: Final = tuple(f.name for f in fields(Policy))

Reader = Callable[[str, Any], Any]


def parse_policy(mapping: Mapping[str, Any], *, base: Policy | None = None) -> Policy:
    """A policy from a file, the API or the page; fields not named keep the value of `base`."""
    unknown = sorted(set(mapping) - set(FIELDS))
    if unknown:
        raise PolicyError(unknown[0], "is not a field of a policy", f"the fields are {', '.join(FIELDS)}")
    policy = replace(
        base or Policy(), **{name: READERS[name](name, value) for name, value in mapping.items()}
    )
    _check_together(policy)
    return policy


def load_shipped(path: Path | str) -> dict[str, Policy]:
    with open(path, "rb") as file:
        document = tomllib.load(file)
    for queue in document:
        check_queue_name(queue)
    return {queue: parse_policy(table) for queue, table in document.items()}


def check_queue_name(name: str, *, field: str = "queue") -> None:
    """A name that the gate's keys can carry.

    Raises:
        PolicyError: it holds another sign, or too many.
    """
    if not QUEUE_NAME.fullmatch(name):
        raise PolicyError(
            field,
            f"{_shown(name)} is not a name of a queue",
            "use 1 to 100 letters, digits, dots, dashes or underscores",
        )


def _check_together(policy: Policy) -> None:
    if policy.low_mark >= policy.high_mark:
        raise PolicyError("low_mark", "must be below high_mark", f"use less than {policy.high_mark}")
    if policy.order == "lifo" and policy.max_age_s is not None:
        # The tail of a last-in-first-out queue never gets younger: the bound would refuse for ever.
        raise PolicyError(
            "order", "lifo cannot be held together with max_age_s", "use fifo, or set max_age_s to null"
        )
    if (policy.codel_target_ms is None) != (policy.codel_interval_ms is None):
        raise PolicyError("codel_target_ms", "goes with codel_interval_ms", "set both or neither")
    if (
        policy.codel_target_ms
        and policy.codel_interval_ms
        and policy.codel_target_ms > policy.codel_interval_ms
    ):
        # The target is the wait that is left once the queue has stood for an interval.
        raise PolicyError(
            "codel_target_ms",
            "must not be above codel_interval_ms",
            f"use at most {policy.codel_interval_ms}",
        )
    if (policy.objective_s is None) != (policy.objective_share is None):
        raise PolicyError("objective_s", "goes with objective_share", "set both or neither")
    if policy.on_full == "block" and policy.block_s is None:
        raise PolicyError("block_s", "is needed where on_full is block", "set the longest wait in seconds")
    if policy.waiting_room_max is not None and policy.max_count is None:
        raise PolicyError("max_count", "is needed where there is a waiting room", "bound the jobs")
    if policy.waiting_room_max is not None and policy.on_full != "reject":
        raise PolicyError("waiting_room_max", "goes with on_full reject only", "set it to null, or on_full")
    if policy.on_full == "sample" and policy.sample_rate is None:
        raise PolicyError("sample_rate", "is needed where on_full is sample", "set the share to keep, 0 to 1")
    if policy.degrade_queue is not None:
        check_queue_name(policy.degrade_queue, field="degrade_queue")
    if policy.on_full == "degrade":
        _check_degrade(policy)
    if policy.on_full == "spill" and policy.spill_max_count is None and policy.spill_max_bytes is None:
        raise PolicyError(
            "spill_max_count", "or spill_max_bytes is needed where on_full is spill", "bound the spill"
        )
    if policy.on_full == "coalesce" and not policy.may_coalesce:
        raise PolicyError(
            "may_coalesce", "must be true where on_full is coalesce", "set may_coalesce to true"
        )
    if policy.guard_age_s and policy.age_ceiling_s and policy.guard_age_s > policy.age_ceiling_s:
        raise PolicyError(
            "guard_age_s", "must not be above age_ceiling_s", f"use at most {policy.age_ceiling_s}"
        )


def _check_degrade(policy: Policy) -> None:
    if not policy.degrade_to:
        raise PolicyError("degrade_to", "is needed where on_full is degrade", "name the cheaper task")
    if (policy.degrade_queue is None) == (policy.degrade_reserve is None):
        # Without one of them what is degraded would find the same bound; with both, two rules would say
        # where it may stand.
        raise PolicyError(
            "degrade_reserve",
            "or degrade_queue, one of both, is needed where on_full is degrade",
            "give the room beyond each bound that degraded jobs have, or the queue that takes them",
        )


def _number(*, low: float, high: float = 1e15, whole: bool = False, open_low: bool = False) -> Reader:
    def read(name: str, value: Any) -> float | int:
        if not is_number(value):
            raise PolicyError(name, f"must be a number, not {_shown(value)}")
        if whole and value != int(value):
            raise PolicyError(name, f"must be a whole number, not {_shown(value)}")
        if value > high or value < low or (open_low and value == low):
            least = f"more than {low:g}" if open_low else f"at least {low:g}"
            most = f"{high:,.0f}" if high == int(high) else f"{high:g}"
            raise PolicyError(name, f"must be {least} and at most {most}, not {_shown(value)}")
        return int(value) if whole else float(value)

    return read


def _or_null(reader: Reader) -> Reader:
    return lambda name, value: None if value is None else reader(name, value)


def _word(*words: str) -> Reader:
    def read(name: str, value: Any) -> str:
        if value not in words:
            raise PolicyError(name, f"must be one of {', '.join(words)}, not {_shown(value)}")
        return str(value)

    return read


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise PolicyError(name, f"must be true or false, not {_shown(value)}")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 200:
        raise PolicyError(name, "must be a text of at most 200 characters")
    return value


def _caps(name: str, value: Any) -> Mapping[str, int]:
    if not isinstance(value, Mapping) or len(value) > MOST_CAPS:
        raise PolicyError(name, f"must be an object of at most {MOST_CAPS} tasks", '{"reports.build": 2}')
    for task in value:
        if not isinstance(task, str) or not 0 < len(task) <= 200:
            raise PolicyError(name, f"{_shown(task)} is not the name of a task")
    return {task: _CAP(f"{name}.{task}", cap) for task, cap in value.items()}


def _limits(name: str, value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, (list, tuple)) or len(value) > 10:
        raise PolicyError(name, "must be a list of at most 10 limits")
    limits = tuple(_limit(f"{name}[{i}]", item) for i, item in enumerate(value))
    names = [limit_name(limit) for limit in limits]
    for i, own in enumerate(names):
        if own in names[:i]:
            raise PolicyError(f"{name}[{i}]", f"is the second {own}", "keep the stricter of the two")
    return limits


def _limit(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PolicyError(
            name, "must be an object", '{"per": "tenant", "kind": "token_bucket", "limit": 10, "window_s": 1}'
        )
    readers: dict[str, Reader] = {
        "per": _word(*LIMIT_SCOPES),
        "kind": _word(*LIMIT_KINDS),
        "limit": _number(low=1, high=1e9, whole=True),
        "window_s": _number(low=0.001, high=86_400),
        "burst": _or_null(_number(low=1, high=1e9, whole=True)),
        "where": _word(*LIMIT_PLACES),
    }
    for key in value:
        if key not in readers:
            raise PolicyError(
                f"{name}.{key}", "is not a field of a limit", f"the fields are {', '.join(readers)}"
            )
    for key in ("per", "limit", "window_s"):
        if key not in value:
            raise PolicyError(f"{name}.{key}", "is missing")
    given = {"kind": "token_bucket", "burst": None, "where": "gate", **value}
    limit = {key: reader(f"{name}.{key}", given[key]) for key, reader in readers.items()}
    limit["window_s"] = round(limit["window_s"], 3)
    if limit["kind"] not in BUCKETS:
        if limit["burst"] is not None:
            raise PolicyError(f"{name}.burst", "means nothing for a window", "leave it out")
    elif limit["burst"] is None:
        limit["burst"] = limit["limit"] if limit["kind"] == "token_bucket" else 1
    if limit["window_s"] * 1000 * max(limit["limit"], limit["burst"] or 0) > MOST_IN_A_BUCKET:
        raise PolicyError(f"{name}.window_s", "is too long for so many jobs", "use a shorter window")
    return limit


def limit_name(limit: Mapping[str, Any]) -> str:
    """What tells a limit from the others of its queue."""
    return f"{limit['per']}-{limit['kind']}-{limit['window_s']:g}s"


def _shown(value: Any) -> str:
    return repr(value)[:60]


_CAP = _number(low=1, high=1e9, whole=True)
_COUNT = _or_null(_CAP)
_BYTES = _or_null(_number(low=1, high=1e13, whole=True))
_MS = _or_null(_number(low=1, high=1e12, whole=True))
_SECONDS = _or_null(_number(low=0, high=1e9, open_low=True))
_SHARE = _number(low=0, high=1)

READERS: Final[dict[str, Reader]] = {
    "max_count": _COUNT,
    "max_bytes": _BYTES,
    "max_cost_ms": _MS,
    "max_age_s": _SECONDS,
    "max_wait_s": _SECONDS,
    "guard_age_s": _SECONDS,
    "on_full": _word(*ON_FULL),
    "block_s": _SECONDS,
    "sample_rate": _or_null(_SHARE),
    "may_coalesce": _flag,
    "waiting_room_max": _or_null(_number(low=1, high=100_000, whole=True)),
    "waiting_room_slot_s": _number(low=1, high=3600),
    "degrade_to": _or_null(_text),
    "degrade_queue": _or_null(_text),
    "degrade_reserve": _or_null(_number(low=0, high=1, open_low=True)),
    "spill_max_count": _COUNT,
    "spill_max_bytes": _BYTES,
    "spill_max_age_s": _SECONDS,
    "order": _word(*ORDERS),
    "strict_rank": _or_null(_number(low=0, high=100, whole=True)),
    "weight": _number(low=0, high=1e6, open_low=True),
    "reserved_slots": _number(low=0, high=1e6, whole=True),
    "max_in_flight": _COUNT,
    "max_in_flight_per_task": _or_null(_caps),
    "age_ceiling_s": _SECONDS,
    "tenant_share": _or_null(_number(low=0, high=1, open_low=True)),
    "codel_target_ms": _MS,
    "codel_interval_ms": _MS,
    "saturated_share": _SHARE,
    "admit_while_draining": _flag,
    "high_mark": _SHARE,
    "low_mark": _SHARE,
    "hold_s": _number(low=0, high=86_400),
    "max_deliveries": _number(low=1, high=100, whole=True),
    "lease_s": _number(low=1, high=3600),
    "unknown_task_grace_s": _number(low=0, high=86_400),
    "downstream": _or_null(_text),
    "rate_limits": _limits,
    "objective_s": _SECONDS,
    "objective_share": _or_null(_number(low=0, high=1, open_low=True)),
    "owner": _or_null(_text),
    "payload_class": _word(*PAYLOAD_CLASSES),
    "quarantine_max_count": _COUNT,
    "quarantine_max_bytes": _BYTES,
    "quarantine_max_age_s": _SECONDS,
    "on_quarantine_full": _word(*ON_QUARANTINE_FULL),
}

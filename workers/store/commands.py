"""What can be asked of a gate? One typed function a script."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import msgpack
import redis

from ..clock import RedisClock
from ..privacy.classes import DEFAULT_CLASS
from ..privacy.seal import keyring
from . import durability, health, keys, scripts, snapshots
from .connections import TIMEOUT_S, open_client
from .faults import raise_unavailable
from .offers import Grant, Offer, Ticket, Verdict, parse_verdict, read_grant, read_ticket
from .records import Operation, QuarantinedRecord, parse_operation, parse_quarantined
from .recount import recount
from .replies import as_pairs, as_rows, as_text, as_texts
from .turns import Claimed, Settlement, Turn, parse_turn, turn_arguments

#: kombu keeps a list per priority step; these are its names' endings ("" = priority 0).
INLET_SUFFIXES = ("", "\x06\x163", "\x06\x166", "\x06\x169")

#: Longest wait in one command, in s: below every client's socket timeout.
LONGEST_WAIT_S = 0.8
#: Records and payloads of quarantined jobs in one reply, in bytes.
SPOOL_BYTES = 4 * 1024 * 1024
#: Fields of a policy that no script reads: each that is left out makes every call a little cheaper.
NOT_FOR_SCRIPTS = frozenset(
    {"guard_age_s", "hold_s", "owner", "objective_share", "quarantine_max_age_s", "quarantine_max_count"}
    | {"quarantine_max_bytes", "on_quarantine_full"}
)
#: What the scripts take where a policy does not say: a field that says the same is left out too.
SCRIPT_DEFAULTS: Mapping[str, Any] = {
    "on_full": "reject",
    "order": "fifo",
    "weight": 1,
    "reserved_slots": 0,
    "saturated_share": 1,
    "admit_while_draining": False,
    "high_mark": 0.9,
    "low_mark": 0.5,
    "max_deliveries": 3,
    "lease_s": 10,
    "unknown_task_grace_s": 30,
    "waiting_room_slot_s": 10,
    "payload_class": DEFAULT_CLASS,
}

_FLAGS = {True: "1", False: "0"}
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class SealedPage:
    """``counts``: payloads by the name of their key ("" in clear); ``after`` "0": all were seen."""

    after: str
    counts: dict[str, int]
    others: list[str]


@dataclass(frozen=True, slots=True)
class Erased:
    """``place``: waiting, delayed, spilled, running, held, settled, again or unknown (see erase.lua)."""

    id: str
    place: str
    task: str
    worker: str
    started_at_ms: int | None


@dataclass(frozen=True, slots=True)
class CancelReply:
    """``result``: cancelled, requested (it runs and was asked to stop), settled or unknown.

    ``changed``: this call did it; False where it was so before.
    """

    result: str
    status: str
    changed: bool


#: Jobs of a suspended tenant that one call makes eligible again; a script must not hold Redis up.
MOST_RESUMED = 500


def _ints(row: Mapping[str, str]) -> dict[str, int]:
    return {name: int(float(value)) for name, value in row.items()}


class Store:
    """One gate on one Redis. Every method raises ``StoreUnavailable`` when Redis cannot serve."""

    def __init__(self, client: redis.Redis, gate: str = "main", *, wait_replicas: int = 0) -> None:
        """``wait_replicas``: how many replicas must have received an admission for it to be called so."""
        self.wait_replicas = wait_replicas
        self.client = client
        self.line = scripts.Line(client)
        self.gate = gate
        self.root = keys.root(gate)
        self.clock = RedisClock()

    @classmethod
    def from_url(
        cls, url: str, gate: str = "main", *, timeout_s: float = TIMEOUT_S, wait_replicas: int = 0
    ) -> Self:
        """A store by URL; see ``connections.open_client`` for the schemes."""
        return cls(open_client(url, timeout_s=timeout_s), gate, wait_replicas=wait_replicas)

    def _reply(self, name: str, *args: Any) -> bytes:
        return scripts.run(self.line, name, self.root, *args)

    def _run(self, name: str, *args: Any) -> Any:
        reply = scripts.unpack(self._reply(name, *args))
        self.clock.set(reply["now"] if isinstance(reply, dict) else reply[0])
        return reply

    def _call(self, *command: Any) -> Any:
        try:
            return self.client.execute_command(*command)
        except (redis.RedisError, OSError) as exc:
            raise_unavailable(exc)

    # producers

    def admit(
        self,
        offers: Sequence[Offer],
        *,
        whole: bool = False,
        not_after_ms: int | None = None,
        inlet: tuple[str, bytes] | None = None,
    ) -> list[Verdict]:
        """Offers jobs; ``whole`` accepts all or none. A verdict for each, in order.

        ``not_after_ms`` (Redis's clock) keeps a command that was stuck on its way from accepting
        what its sender has given up. ``inlet`` names a stock list and its raw tail, taken off in the
        same step; an empty list comes back when the tail is another by now.
        """
        key, tail = inlet or ("", b"")
        args: list[Any] = ["" if not_after_ms is None else not_after_ms, _FLAGS[whole], key, tail]
        for offer in offers:
            args += (offer.pack(), offer.payload)
        if not self.wait_replicas:
            now, rows = self._run("admit", *args)
            return self._verdicts(now, rows)
        raw, confirmed = scripts.run_then(
            self.line, "admit", self.root, *args, then=lambda reply: self._wait_if_any(reply)
        )
        now, rows = scripts.unpack(raw)
        self.clock.set(now)
        boundary = (
            durability.REPLICA if isinstance(confirmed, int) and confirmed >= self.wait_replicas else None
        )
        return [
            replace(v, durability=boundary) if v.accepted and v.status != "shed" else v
            for v in self._verdicts(now, rows)
        ]

    def _verdicts(self, now: int, rows: list[Any]) -> list[Verdict]:
        if rows and rows[0][1] == "gone":
            return []
        return [parse_verdict(row, now) for row in rows]

    def _wait_if_any(self, reply: bytes) -> tuple[Any, ...] | None:
        """WAIT, where something was stored just now: a refusal is not made slower by a replica's absence."""
        if not any(row[1] == "accepted" for row in scripts.unpack(reply)[1]):
            return None
        return "WAIT", self.wait_replicas, durability.REPLICA_WAIT_MS

    def report_refusals(self, counts: Mapping[tuple[str, str, str], int]) -> None:
        """Counts refusals that this producer made locally, by (queue, tenant, reason)."""
        args: list[Any] = []
        for (queue, tenant, reason), number in counts.items():
            args += (queue, tenant, reason, number)
        self._run("report", *args)

    def read_ticket(self, ticket: str, *, tenant: str | None = None) -> Ticket | None:
        """Where a ticket stands; None where there is none (any more), or it is another tenant's."""
        reply = self._run("ticket", ticket, tenant or "")
        return read_ticket(reply[1], reply[2]) if len(reply) > 1 else None

    def wait_for_room(self, queues: Iterable[str], timeout_s: float) -> str | None:
        """The queue in which room was made, as soon as that is told; None where it was not in time.

        Only queues with on_full = block tell. It may be told in vain or not at all: look again now and then.
        """
        names = {keys.room(self.root, queue): queue for queue in queues}
        timeout_s = max(0.01, min(timeout_s, LONGEST_WAIT_S))
        told = self._call("BRPOP", *names, f"{timeout_s:.3f}")
        return None if told is None else names[as_text(told[0])]

    def account(
        self,
        producer: str,
        epoch: int,
        *,
        queues: Mapping[str, tuple[int, int]],
        holds: str = "",
        ends: bool = False,
    ) -> None:
        """A producer tells, by queue, the credits it has used and for how many ms it was blocked.

        ``holds`` (JSON) says what stands in it at this moment. One that ``ends`` gives its credits back.
        """
        args: list[Any] = []
        for queue, (used, blocked_ms) in queues.items():
            args += (queue, used, blocked_ms)
        self._run("account", producer, epoch, "ends" if ends else "tells", holds, *args)

    def ask_credits(self, producer: str, epoch: int, used: Mapping[str, int]) -> dict[str, Grant | None]:
        """Credits without an attempt, for a producer that refuses everything by itself at this moment."""
        args: list[Any] = []
        for queue, number in used.items():
            args += (queue, number, 0)
        rows = self._run("account", producer, epoch, "asks", "", *args)[1]
        return {queue: read_grant(row) if row else None for queue, row in zip(used, rows, strict=True)}

    # workers

    def settle(self, settlements: Sequence[Settlement]) -> list[str]:
        """Ends deliveries: a word each (settled, retried, returned, quarantined, stale, unknown)."""
        reply = self._run("settle", *[s.pack() for s in settlements])
        return list(reply[1])

    def renew(
        self, worker: str, about: Mapping[str, Any] | None, held: Iterable[tuple[str, int, int | None]]
    ) -> tuple[list[str], list[str]]:
        """A heartbeat: renews (id, epoch, started_at_ms) and gives the ids lost and those asked to stop."""
        packed = [msgpack.packb({"i": op_id, "e": epoch, "st": started}) for op_id, epoch, started in held]
        _, lost, stop = self._run("renew", worker, json.dumps(about) if about else "", *packed)
        return list(lost), list(stop)

    def claim(self, worker: str, queues: Sequence[str], most: int = 1) -> list[Claimed]:
        """Takes up to ``most`` jobs by policy; fewer where their payloads come to 4 MiB (claim.lua)."""
        return self.take_turn(worker, queues, most, []).jobs

    def take_turn(self, worker: str, queues: Sequence[str], most: int, ends: Sequence[Settlement]) -> Turn:
        """Ends deliveries and takes jobs as ``claim`` does, in one step."""
        return parse_turn(self._reply("claim", *turn_arguments(worker, queues, most, ends)), self.clock)

    def forget_worker(self, worker: str) -> None:
        """Takes a worker that ends off the list."""
        self._call("ZREM", self.root + "workers", worker)
        self._call("HDEL", self.root + "worker", worker)

    def fence(self, resource: str, epoch: int) -> bool:
        """Whether a holder with this epoch may still write to a resource; an older one may not any more.

        A day after its last write a resource is forgotten (Kleppmann, "How to do distributed locking").
        """
        return bool(self._run("fence", resource, epoch)[1])

    # operators

    def has_old_layout(self) -> bool:
        """Whether its numbers are those of a checkout before 0.1.0, field by field, which no script reads."""
        kinds = {self._call("TYPE", f"{self.root}totals:{queue}") for queue in self.read_policies()}
        return bool(kinds & {b"hash", "hash"})

    def size(self, queue: str) -> int:
        """Waiting and delayed jobs of a queue (of the default queue, where it has no policy)."""
        return int(self._run("size", queue)[1])

    def purge(self, queue: str, *, by: str) -> int:
        """Cancels what waits or is delayed in a queue now, not what producers go on to add; how many."""
        total, present = 0, self.size(queue)
        while total < present:
            number = int(self._run("purge", queue, by, min(100, present - total))[1])
            if number == 0:
                break
            total += number
        return total

    def cancel(self, op_id: str, *, by: str, tenant: str | None = None) -> CancelReply:
        """Ends an operation before it starts, or asks a running one to stop. Repeating it is safe."""
        _, result, status, changed = self._run("cancel", op_id, tenant or "", by)
        return CancelReply(result, status, bool(changed))

    def knows_tenant(self, tenant: str) -> bool:
        """Whether any queue has numbers of it; those of a tenant without jobs are kept for a time."""
        names = [f"{self.root}tenant:{queue}|{tenant}" for queue in self.read_policies()]
        return bool(names) and bool(self._call("EXISTS", *names))

    def suspend_tenant(self, tenant: str, about: Mapping[str, Any]) -> int:
        """Holds what a tenant has waiting and refuses what it offers; how many of its jobs that are."""
        return int(self._run("suspend", tenant, json.dumps(dict(about)), *self.read_policies())[1])

    def resume_tenant(self, tenant: str) -> int:
        """Lets a tenant's held jobs become eligible, in batches; how many. Going on with it is safe."""
        total = 0
        while True:
            _, number, word = self._run("resume", tenant, MOST_RESUMED, *self.read_policies())
            total += int(number)
            if word == "resumed":
                return total

    def read_suspended(self) -> dict[str, dict[str, Any]]:
        """Suspended tenants, each with who did it, when and why."""
        rows = as_texts(self._call("HGETALL", self.root + "suspended"))
        return {tenant: json.loads(about) for tenant, about in rows.items()}

    def is_suspended(self, tenant: str) -> bool:
        return bool(self._call("HEXISTS", self.root + "suspended", tenant))

    def bar_keys(self, keys_and_words: Mapping[str, str]) -> None:
        """What these API keys submitted is not started any more."""
        if keys_and_words:
            self._run("bar_key", *[x for pair in keys_and_words.items() for x in pair])

    def read_barred_keys(self) -> set[str]:
        return {as_text(key) for key in self._call("HKEYS", self.root + "revoked")}

    def set_mode(
        self,
        scope: str,
        mode: str,
        *,
        by: str,
        reason: str,
        until_at_ms: int | None = None,
        until: str | None = None,
        pinned: bool = False,
        automatic: bool = False,
        figures: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Sets the mode of a queue or of the installation (scope ``*``); the next admit obeys.

        An automatic change never replaces what an operator set (``kept`` is then True). ``until`` is
        ``"drained"`` or None, ``until_at_ms`` an expiry by Redis's clock. Returns before and after.
        """
        after = {
            "mode": mode,
            "by": by,
            "reason": reason,
            "until_at_ms": until_at_ms,
            "until": until,
            "pinned": pinned,
            "automatic": automatic,
            "figures": dict(figures or {}),
        }
        now, done, before = self._run(
            "set_mode",
            scope,
            mode,
            "" if until_at_ms is None else until_at_ms,
            json.dumps(after),
            _FLAGS[automatic],
        )
        return {
            "kept": done == "kept",
            "before": json.loads(before) if before else None,
            "after": {**after, "since_at_ms": now},
        }

    def clear_mode(self, scope: str) -> None:
        """A queue has no mode of its own any more."""
        self._run("set_mode", scope, "", "", "", "0")

    def read_modes(self) -> dict[str, dict[str, Any]]:
        """Modes by scope, each with since_at_ms, by, reason, until_at_ms, pinned, automatic, figures."""
        details = as_texts(self._call("HGETALL", self.root + "modes:detail"))
        since = as_texts(self._call("HGETALL", self.root + "modes:since"))
        return snapshots.read_modes(details, since)

    def publish_policy(self, queue: str, fields: Mapping[str, Any], *, version: int) -> None:
        """Makes a policy the one in force, for what waits and runs already too. None means no bound."""
        before = self._call("HGET", self.root + "policies", queue)
        stood = json.loads(before) if before else {}
        self._write_policy(queue, fields, version=version)
        if (fields.get("order") == "edf") != (stood.get("order") == "edf"):
            self._reorder(queue)
        if fields.get("downstream") or fields.get("max_in_flight_per_task"):
            self.adopt()

    def _reorder(self, queue: str) -> None:
        tenant, after = "", "-inf"
        while True:
            named = tenant.encode("utf-8", "surrogateescape")
            _, tenant, after = self._run("reorder", queue, named, after, 500)
            if not tenant:
                return

    def _write_policy(self, queue: str, fields: Mapping[str, Any], *, version: int) -> None:
        flags_as_numbers = {
            name: int(value) if isinstance(value, bool) else value
            for name, value in fields.items()
            if value not in (None, [], (), {})
            and name not in NOT_FOR_SCRIPTS
            and value != SCRIPT_DEFAULTS.get(name, _ABSENT)
        }
        packed = msgpack.packb(flags_as_numbers)
        document = json.dumps({**fields, "version": version}, sort_keys=True)
        try:
            with self.client.pipeline(transaction=True) as pipe:
                pipe.hset(self.root + "rules", f"policy|{queue}", packed)
                pipe.hset(self.root + "policies", queue, document)
                pipe.execute()
        except (redis.RedisError, OSError) as exc:
            raise_unavailable(exc)

    def remove_policy(self, queue: str) -> None:
        """The queue has no policy of its own any more: what names it goes to the default queue."""
        self._call("HDEL", self.root + "rules", f"policy|{queue}")
        self._call("HDEL", self.root + "policies", queue)

    def read_policies(self) -> dict[str, dict[str, Any]]:
        """Policies by queue, each with its version."""
        rows = as_texts(self._call("HGETALL", self.root + "policies"))
        return {queue: json.loads(document) for queue, document in rows.items()}

    def publish_downstream(self, name: str, fields: Mapping[str, Any], *, version: int) -> None:
        """Makes a downstream's settings those in force; what its limit has learnt stays."""
        document = json.dumps({**fields, "version": version}, sort_keys=True)
        flat: dict[Any, Any] = {**fields, "version": version}
        try:
            with self.client.pipeline(transaction=True) as pipe:
                pipe.delete(keys.downstream(self.root, name))
                pipe.hset(keys.downstream(self.root, name), mapping=flat)
                pipe.hset(self.root + "downstreams", name, document)
                pipe.execute()
        except (redis.RedisError, OSError) as exc:
            raise_unavailable(exc)
        self.adopt()

    def remove_downstream(self, name: str) -> None:
        """Nothing is limited by this downstream any more, and what was learnt of it is forgotten."""
        self._call("HDEL", self.root + "downstreams", name)
        self._call("DEL", keys.downstream(self.root, name), keys.limit(self.root, name))

    def read_downstreams(self) -> dict[str, dict[str, Any]]:
        """Settings by downstream, each with its version."""
        rows = as_texts(self._call("HGETALL", self.root + "downstreams"))
        return {name: json.loads(document) for name, document in rows.items()}

    def adopt(self, limit: int = 5_000) -> int:
        """Counts what runs already under caps and downstreams that came later; how many jobs."""
        return int(self._run("adopt", limit)[1])

    def report_call(self, op_id: str, epoch: int, outcome: str, *, took_ms: int) -> str:
        """What one call of a job's downstream came to: ``success``, ``dropped`` or ``ignore``.

        Says ``taught``, ``stale`` (the delivery has lost its lease) or ``none`` (it has no downstream).
        """
        return str(self._run("sample", op_id, epoch, outcome, took_ms)[1])

    def publish_model(self, queue: str, figures: Mapping[str, float | None]) -> None:
        """What the monitor models of a queue; the admit script derives times to come back from it."""
        known = {name: value for name, value in figures.items() if value is not None}
        unknown = [name for name, value in figures.items() if value is None]
        if known:
            self._call("HSET", keys.model(self.root, queue), *[x for pair in known.items() for x in pair])
        if unknown:
            self._call("HDEL", keys.model(self.root, queue), *unknown)

    def write_settings(self, settings: Mapping[str, float]) -> None:
        """Settings that scripts read: retention_s."""
        self._call("HSET", self.root + "rules", *[x for pair in settings.items() for x in pair])

    def write_crews(self, crews: Sequence[Mapping[str, Any]]) -> None:
        """How many slots serve which queues, as a snapshot tells; the claim keeps reserved ones free."""
        self._call("HSET", self.root + "rules", "crews", msgpack.packb(list(crews)))

    # deletion

    def scan_records(self, cursor: int, *, count: int = 1000) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
        """Some records and where to go on; 0 when all were seen. What is there from begin to end is seen."""
        cursor, rows = self._call("HSCAN", self.root + "ops", cursor, "COUNT", count)
        pairs = rows.items() if isinstance(rows, dict) else as_pairs(rows)
        return int(cursor), [(as_text(op_id), scripts.unpack(raw)) for op_id, raw in pairs]

    def erase(self, receipt: str, ids: Sequence[str]) -> list[Erased]:
        """Removes what operations carry, in the name of a receipt; where each was."""
        if not ids:
            return []
        _, rows = self._run("erase", receipt, *ids)
        return [Erased(row[0], row[1], row[2], row[3], row[4] or None) for row in as_rows(rows)]

    # encryption

    def count_keys(self, cursor: str, *, current: str = "", count: int = 500) -> SealedPage:
        """With which keys stored payloads are encrypted; ``current`` asks for those of other keys."""
        head = f"sg1:{current}:" if current else ""
        _, after, counts, others = self._run("sealed", cursor, count, head)
        return SealedPage(str(after), dict(counts or {}), as_rows(others))

    def swap_payload(self, field: str, old: bytes, new: bytes) -> bool:
        """Replaces a stored payload, unless it changed meanwhile."""
        return bool(self._run("swap_payload", field, old, new)[1] == "swapped")

    # monitor

    def snapshot(self, *, tenants: int = 50) -> dict[str, Any]:
        """What every queue holds and has done, in one view; cost does not depend on the number of jobs."""
        inlets: list[str] = []
        for queue in (*self.read_policies(), "celery"):
            for suffix in INLET_SUFFIXES:
                inlets += (queue, queue + suffix)
        raw = self._run("snapshot", tenants, *inlets)
        return snapshots.read_snapshot(raw)

    def reap(self, limit: int = 100, *, queues: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Takes back leases that ran out and promotes due jobs; what was taken back, a row each."""
        names = ("id", "queue", "task", "worker", "deliveries", "state")
        _, rows, _promoted = self._run("reap", limit, *queues)
        return [dict(zip(names, row, strict=True)) for row in as_rows(rows)]

    def promote(self, queues: Sequence[str]) -> int:
        """Moves due jobs to their lines (claims do it too); how many."""
        return int(self._run("reap", 0, *queues)[2])

    def sweep(self, queues: Sequence[str], *, limit: int = 500) -> int:
        """Removes what has outlived its use; how many entries."""
        return int(self._run("sweep", limit, *queues)[1])

    def peek_inlet(self, key: str) -> bytes | None:
        """The next message on a stock list, left where it is."""
        if self._call("TYPE", key) not in (b"list", "list"):
            return None
        tail = self._call("LINDEX", key, -1)
        return None if tail is None else bytes(tail)

    def hold_unreadable(
        self, key: str, tail: bytes, *, queue: str, error_type: str, message: str
    ) -> str | None:
        """Moves an unreadable message from an inlet to quarantine; its new id, None if it was gone."""
        op_id = str(uuid.uuid4())
        args: tuple[Any, ...] = (
            key,
            tail,
            op_id,
            queue,
            "default",
            "(unreadable)",
            "undecodable",
            error_type,
            message[:2000],
        )
        args += (keyring().seal(tail, op_id),)
        return op_id if self._run("hold", *args)[1] == "held" else None

    def read_quarantine_spool(
        self, limit: int = 100, *, max_bytes: int = SPOOL_BYTES
    ) -> list[QuarantinedRecord]:
        """Quarantined jobs that have not been copied yet, oldest first: within both bounds, one at least."""
        now, rows = scripts.unpack_raw(self._reply("spooled", limit, max_bytes))
        self.clock.set(now)
        return [
            parse_quarantined(as_text(op_id), scripts.unpack(record), payload, int(at))
            for op_id, at, record, payload in rows
        ]

    def forget_spooled(self, ids: Sequence[str]) -> int:
        """Forgets quarantined jobs that are in the database now."""
        return int(self._run("unspool", *ids)[1]) if ids else 0

    def note_replayed(self, old_id: str, new_id: str) -> None:
        """Notes on a failed operation the one that replays it."""
        self._run("mark_replayed", old_id, new_id)

    # reading

    def read_operation(self, op_id: str) -> Operation | None:
        """One operation, or None where the gate does not know the id (any more)."""
        row = self._call("HGET", self.root + "ops", op_id) or self._call("HGET", self.root + "dropped", op_id)
        return None if row is None else parse_operation(op_id, scripts.unpack(row))

    def read_statuses(self, op_ids: Sequence[str]) -> dict[str, str]:
        """The status of each operation that the gate still knows."""
        known: dict[str, str] = {}
        for key in ("ops", "dropped"):
            asked = [op_id for op_id in op_ids if op_id not in known]
            rows = self._call("HMGET", self.root + key, *asked) if asked else []
            found = [(op_id, row) for op_id, row in zip(asked, rows, strict=True) if row is not None]
            known |= {op_id: parse_operation(op_id, scripts.unpack(row)).status for op_id, row in found}
        return known

    def read_payload(self, op_id: str) -> bytes | None:
        """The stored message of a pending or quarantined operation."""
        row = self._call("HGET", self.root + "payloads", op_id)
        return None if row is None else bytes(row)

    def put_frame(self, frame: str) -> None:
        """Stores the newest frame (JSON), in a full Redis too."""
        self._run("put_frame", frame)

    def read_frame(self) -> str | None:
        """The newest frame (JSON), None before the first."""
        row = self._call("GET", self.root + "frame")
        return None if row is None else as_text(row)

    # leadership

    def acquire_lease(self, name: str, holder: str, ttl_ms: int) -> bool:
        """Takes or keeps a leadership lease."""
        return bool(self._run("lead", keys.lease(self.root, name), holder, ttl_ms)[1])

    def release_lease(self, name: str, holder: str) -> None:
        """Gives a leadership lease up, if it is held."""
        self._run("lead", keys.lease(self.root, name), holder, 0)

    # truth

    def recount(self) -> dict[str, dict[str, int | None]]:
        """The gauges and the oldest of each queue, from the raw structures.

        Costs O(jobs): for tests and ``doctor`` only. Not one view: stop the traffic first.
        """
        try:
            return recount(self.client, self.root, self.read_policies(), self.read_suspended())
        except (redis.RedisError, OSError) as exc:
            raise_unavailable(exc)

    def health(self) -> dict[str, Any]:
        """Whether Redis serves, and what it says of memory, eviction and persistence.

        ``state`` is ok or one of the words of ``StoreUnavailable``; never raises.
        """
        return health.read_health(self.client)

    def read_durability(self) -> str:
        """The boundary that the server's own settings amount to, now.

        Raises:
            StoreUnavailable: it does not answer.
        """
        try:
            return health.read_durability(self.client)
        except (redis.RedisError, OSError) as exc:
            raise_unavailable(exc)

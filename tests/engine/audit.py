"""Does what a gate says of itself agree with what it holds? Reads the raw keys, trusts no counter."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from workers.states import TERMINAL
from workers.store import Store, scripts

_FIELD_OF = {
    "waiting": "depth",
    "blocked": "depth",
    "parked": "depth",
    "delayed": "delayed",
    "spilled": "delayed",
    "leased": "in_flight",
}
_GAUGES = ("depth", "delayed", "in_flight", "bytes", "cost_ms", "parked", "spilled", "spilled_bytes")
BESIDE = ("started", "quarantined", "redelivered", "over_bound", "degraded", "promised", "in_objective")
_BASE_MS, _STEPS = 1735689600000, 4096


class Contents:
    """All keys of a gate, read in one step: a producer may still be reporting what it refused by itself."""

    def __init__(self, store: Store) -> None:
        client, root = store.client, store.root
        names = list(client.scan_iter(root.replace("{", "[{]") + "*", count=10_000))
        with client.pipeline(transaction=True) as pipe:
            for name in names:
                pipe.type(name)
            kinds = pipe.execute()
            for name, kind in zip(names, kinds, strict=True):
                if kind == b"hash":
                    pipe.hgetall(name)
                elif kind == b"zset":
                    pipe.zrange(name, 0, -1, withscores=True)
                elif kind == b"set":
                    pipe.smembers(name)
                elif kind == b"string":
                    pipe.get(name)
                else:
                    pipe.type(name)
            values = pipe.execute()
        self.hashes: dict[str, dict[str, bytes]] = {}
        self.zsets: dict[str, dict[str, float]] = {}
        self.sets: dict[str, set[str]] = {}
        self.sheets: dict[str, dict[str, float]] = {}
        for name, kind, value in zip(names, kinds, values, strict=True):
            short = name.decode()[len(root) :]
            if kind == b"hash":
                self.hashes[short] = {k.decode(errors="surrogateescape"): v for k, v in value.items()}
            elif kind == b"set":
                self.sets[short] = {m.decode(errors="surrogateescape") for m in value}
            elif kind == b"string" and short.startswith(("totals:", "tenant:")):
                self.sheets[short] = scripts.unpack(value)
            elif kind == b"zset":
                self.zsets[short] = {m.decode(errors="surrogateescape"): float(s) for m, s in value}

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """Every operation's record, as the scripts see it."""
        return {op_id: scripts.unpack(row) for op_id, row in self.hashes.get("ops", {}).items()}

    def numbers(self, name: str) -> dict[str, float]:
        return {field: float(value) for field, value in self.sheets.get(name, {}).items()}

    def names(self, beginning: str) -> list[str]:
        """What follows ``beginning`` in the names of sheets."""
        return [name[len(beginning) :] for name in self.sheets if name.startswith(beginning)]


def sets_of_holders(contents: Contents) -> list[str]:
    """The sets of jobs that hold a downstream's call or a task's place."""
    return [name for name in contents.sets if name.startswith(("calls:", "running:"))]


def records(store: Store) -> dict[str, dict[str, Any]]:
    """Every operation's record, as the scripts see it."""
    raw = store.client.hgetall(store.root + "ops")
    return {op_id.decode(errors="surrogateescape"): scripts.unpack(row) for op_id, row in raw.items()}


def totals(store: Store, queue: str) -> dict[str, float]:
    """Counters and gauges of a queue."""
    packed = store.client.get(f"{store.root}totals:{queue}")
    return {field: float(value) for field, value in scripts.unpack(packed).items()} if packed else {}


def find_faults(store: Store, contents: Contents | None = None) -> list[str]:
    """Everything that does not add up, in words; empty when all is well. Stop the traffic first."""
    held_now = contents or Contents(store)
    ops = held_now.records
    faults: list[str] = []
    queues = held_now.names("totals:")
    held: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    waiting: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    delayed: dict[str, set[str]] = defaultdict(set)
    spilled: dict[tuple[str, str], set[str]] = defaultdict(set)
    blocked: dict[str, set[str]] = defaultdict(set)
    leased: set[str] = set()
    parked: dict[str, dict[str, int]] = defaultdict(dict)
    holders: dict[str, set[str]] = defaultdict(set)
    settled: set[str] = set()
    wanted_payloads: set[str] = set()
    lengths = {key: len(value) for key, value in held_now.hashes.get("payloads", {}).items()}

    def members(name: str) -> set[str]:
        return set(held_now.zsets.get(name, {}))

    for op_id, rec in ops.items():
        state, place = rec["s"], (rec["q"], rec["n"])
        field = _FIELD_OF.get(state)
        if field is None:
            if state not in TERMINAL:
                faults.append(f"{op_id} has the unknown state {state!r}")
            settled.add(op_id)
            held[place]["settled:" + state] += 1
            continue
        if "xd" not in rec:
            wanted_payloads.add(op_id)
        if "nx" in rec:
            wanted_payloads.add(op_id + ":next")
            if state != "leased":
                faults.append(f"{op_id} is {state} and has a successor")
        held[place][field] += 1
        if field == "in_flight":
            leased.add(op_id)
            if "kd" in rec:
                holders["calls:" + rec["kd"]].add(op_id)
            if "kt" in rec:
                holders[f"running:{rec['q']}|{rec['kt']}"].add(op_id)
            continue
        for mark in ("kd", "kt"):
            if mark in rec:
                faults.append(f"{op_id} is {state} and still holds {rec[mark]}")
        if state == "parked":
            held[place]["parked"] += 1
            parked[f"{rec['q']}|{rec['pk']}"][op_id] = rec.get("e", rec["a"])
        elif "pk" in rec:
            faults.append(f"{op_id} is {state} and set aside by {rec['pk']}")
        if state == "spilled":
            held[place]["spilled"] += 1
            held[place]["spilled_bytes"] += lengths.get(op_id, 0)
            spilled[place].add(op_id)
            continue
        if state == "blocked":
            blocked[rec["q"]].add(f"{len(rec['n'].encode())}|{rec['n']}|{rec['ok']}")
        held[place]["bytes"] += lengths.get(op_id, 0)
        if field == "depth":
            held[place]["cost_ms"] += rec["c"]
            if state == "waiting":
                waiting[place][op_id] = rec.get("e", rec["a"])
        else:
            delayed[rec["q"]].add(op_id)

    def compare(what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            faults.append(f"{what}: found {found!r}, wanted {wanted!r}")

    for queue in queues:
        sums: Counter[str] = Counter()
        heads, turns = {}, set()
        for tenant in held_now.names(f"tenant:{queue}|"):
            own = held_now.numbers(f"tenant:{queue}|{tenant}")
            faults += _identity(f"{queue}|{tenant}", own)
            for gauge in _GAUGES:
                compare(f"{queue}|{tenant} {gauge}", own.get(gauge, 0), held[(queue, tenant)][gauge])
            for name, value in own.items():
                sums[name] += int(value)
            lined = held_now.zsets.get(f"ready:{queue}|{tenant}", {})
            eligible = waiting[(queue, tenant)]
            compare(f"line of {queue}|{tenant}", set(lined), set(eligible))
            for op_id, score in lined.items():
                if op_id in eligible:
                    at = _BASE_MS + int(score // _STEPS)
                    compare(f"place of {op_id} in its line, ms", at, eligible[op_id])
            if lined and "held" not in own:
                heads[tenant] = min(lined.values())
                turns.add(tenant)
        own = held_now.numbers(f"totals:{queue}")
        faults += _identity(queue, own)
        for gauge in _GAUGES:
            number = sum(row[gauge] for (q, _), row in held.items() if q == queue)
            compare(f"{queue} {gauge}", own.get(gauge, 0), number)
        for name in ("offered", "accepted", "refused", *TERMINAL, *BESIDE):
            compare(f"{queue} {name} over its tenants", sums[name], own.get(name, 0))
        grants = held_now.hashes.get(f"credits:{queue}", {})
        out = sum(int(row.split()[1]) for row in grants.values())
        compare(f"{queue} credits out", own.get("credits_out", 0), out)
        went = sum(own.get(f"credits_{name}", 0) for name in ("used", "returned", "expired", "out"))
        compare(f"{queue} credits granted", own.get("credits_granted", 0), went)
        compare(f"producers of {queue}", members(f"credits:until:{queue}"), set(grants))
        line, called = members(f"tickets:line:{queue}"), members(f"tickets:called:{queue}")
        compare(f"{queue} tickets out", own.get("tickets", 0), len(line) + len(called))
        compare(f"tickets due of {queue}", members(f"tickets:due:{queue}"), line | called)
        went = sum(own.get(name, 0) for name in ("tickets", "tickets_admitted", "tickets_expired"))
        compare(f"{queue} tickets given", own.get("tickets_given", 0), went)
        compare(f"{queue} tickets over its tenants", sums["tickets"], own.get("tickets", 0))
        compare(f"{queue} tickets called over its tenants", sums["tickets_called"], len(called))
        compare(f"heads of {queue}", held_now.zsets.get(f"heads:{queue}", {}), heads)
        compare(f"turns of {queue}", members(f"turns:{queue}"), turns)
        compare(f"delayed of {queue}", members(f"delayed:{queue}"), delayed[queue])
        compare(f"blocked keys of {queue}", members(f"blocked:{queue}"), blocked[queue])
        own_spills = {tenant: ids for (q, tenant), ids in spilled.items() if q == queue}
        compare(f"spill of {queue}", members(f"spill:{queue}"), set().union(*own_spills.values()))
        compare(f"spill turns of {queue}", members(f"spill:turns:{queue}"), set(own_spills))
        for tenant, ids in own_spills.items():
            compare(f"spill of {queue}|{tenant}", members(f"spill:{queue}|{tenant}"), ids)
    for name, ids in {**{n: set() for n in sets_of_holders(held_now)}, **holders}.items():
        compare(name, held_now.sets.get(name, set()), ids)
    by_deadline = {
        queue
        for queue, document in held_now.hashes.get("policies", {}).items()
        if json.loads(document).get("order") == "edf"
    }
    due: dict[str, dict[str, int]] = defaultdict(dict)
    for (queue, tenant), eligible in waiting.items():
        for op_id in eligible:
            if queue in by_deadline and "dd" in ops[op_id]:
                due[f"deadlines:{queue}|{tenant}"][op_id] = ops[op_id]["dd"]
    for name in {n for n in held_now.zsets if n.startswith("deadlines:")} | set(due):
        compare(name, held_now.zsets.get(name, {}), due.get(name, {}))
    parks: dict[str, dict[str, float]] = defaultdict(dict)
    for name, scores in held_now.zsets.items():
        if name.startswith("parked:"):
            queue, _, key = name[7:].partition("|")
            places = {op_id: _BASE_MS + int(score // _STEPS) for op_id, score in scores.items()}
            compare(name, places, parked.pop(name[7:], {}))
            parks[queue][key] = min(scores.values())
    compare("set aside in no park", dict(parked), {})
    for name in {n for n in held_now.zsets if n.startswith("parks:")} | {f"parks:{q}" for q in parks}:
        compare(name, held_now.zsets.get(name, {}), parks.get(name[6:], {}))
    compare("leases", members("leases"), leased)
    compare("settled", members("settled"), settled)
    compare("dropped", set(held_now.hashes.get("dropped", {})), members("dropped:at"))
    compare("quarantined", set(held_now.hashes.get("quarantined", {})), members("spool"))
    compare("payloads", set(lengths), wanted_payloads | members("spool"))
    compare("links", set(held_now.hashes.get("links", {})), members("links:until"))
    if contents is None:
        faults += _recounted(store)
    return faults


def _recounted(store: Store) -> list[str]:
    """Where the gate's own recount differs from its counters."""
    faults = []
    for queue, count in store.recount().items():
        own = totals(store, queue)
        for gauge in _GAUGES:
            if count[gauge] != own.get(gauge, 0):
                faults.append(f"recount of {queue} {gauge}: {count[gauge]}, counted {own.get(gauge, 0)}")
    return faults


def check(store: Store) -> None:
    """Fails with every fault found."""
    faults = find_faults(store)
    assert not faults, "\n".join(faults[:20])


def _identity(name: str, row: dict[str, float]) -> list[str]:
    def get(field: str) -> int:
        return int(row.get(field, 0))

    faults = []
    if get("offered") != get("accepted") + get("refused"):
        faults.append(
            f"{name}: offered {get('offered')} != accepted {get('accepted')} + refused {get('refused')}"
        )
    placed = sum(get(field) for field in ("depth", "delayed", "in_flight", *TERMINAL))
    if get("accepted") != placed:
        faults.append(f"{name}: accepted {get('accepted')} != {placed} in its places: {row}")
    reasons = sum(int(value) for field, value in row.items() if field.startswith("refused:"))
    if reasons != get("refused"):
        faults.append(f"{name}: refused {get('refused')} != {reasons} by reason")
    faults += [f"{name}: {field} is {value}" for field, value in row.items() if value < 0]
    return faults

"""Does what a gate says of itself agree with what it holds? Reads the raw keys, trusts no counter."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from workers.states import TERMINAL
from workers.store import Store, scripts

_FIELD_OF = {"waiting": "depth", "delayed": "delayed", "leased": "in_flight"}
_GAUGES = ("depth", "delayed", "in_flight", "bytes", "cost_ms")
_BASE_MS, _STEPS = 1735689600000, 4096


def records(store: Store) -> dict[str, dict[str, Any]]:
    """Every operation's record, as the scripts see it."""
    raw = store.client.hgetall(store.root + "ops")
    return {op_id.decode(): scripts.unpack(row) for op_id, row in raw.items()}


def totals(store: Store, queue: str) -> dict[str, float]:
    return _numbers(store.client.hgetall(f"{store.root}totals:{queue}"))


def tenant_totals(store: Store, queue: str, tenant: str) -> dict[str, float]:
    return _numbers(store.client.hgetall(f"{store.root}tenant:{queue}|{tenant}"))


def tenants_of(store: Store, queue: str) -> list[str]:
    beginning = f"{store.root}tenant:{queue}|"
    return [key.decode()[len(beginning) :] for key in store.client.scan_iter(beginning + "*", count=1000)]


def find_faults(store: Store) -> list[str]:
    """Everything that does not add up, in words; empty when all is well. Stop the traffic first."""
    client, root = store.client, store.root
    ops = records(store)
    faults: list[str] = []
    queues = [key.decode()[len(root) + 7 :] for key in client.scan_iter(root + "totals:*", count=1000)]
    held: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    waiting: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    delayed: dict[str, set[str]] = defaultdict(set)
    leased: set[str] = set()
    settled: set[str] = set()
    wanted_payloads: set[str] = set()
    lengths = {key.decode(): len(value) for key, value in client.hgetall(root + "payloads").items()}
    for op_id, rec in ops.items():
        state, place = rec["s"], (rec["q"], rec["n"])
        field = _FIELD_OF.get(state)
        if field is None:
            if state not in TERMINAL:
                faults.append(f"{op_id} has the unknown state {state!r}")
            settled.add(op_id)
            held[place]["settled:" + state] += 1
            continue
        wanted_payloads.add(op_id)
        if "nx" in rec:
            wanted_payloads.add(op_id + ":next")
            if state != "leased":
                faults.append(f"{op_id} is {state} and has a successor")
        held[place][field] += 1
        if field == "in_flight":
            leased.add(op_id)
            continue
        held[place]["bytes"] += lengths.get(op_id, 0)
        if field == "depth":
            held[place]["cost_ms"] += rec["c"]
            waiting[place][op_id] = rec.get("e", rec["a"])
        else:
            delayed[rec["q"]].add(op_id)

    def compare(what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            faults.append(f"{what}: found {found!r}, wanted {wanted!r}")

    for queue in queues:
        sums: Counter[str] = Counter()
        heads, turns = {}, set()
        for tenant in tenants_of(store, queue):
            own = tenant_totals(store, queue, tenant)
            faults += _identity(f"{queue}|{tenant}", own)
            for gauge in _GAUGES:
                compare(f"{queue}|{tenant} {gauge}", own.get(gauge, 0), held[(queue, tenant)][gauge])
            for name, value in own.items():
                sums[name] += int(value) if name != "vt" else 0
            line = client.zrange(f"{root}ready:{queue}|{tenant}", 0, -1, withscores=True)
            lined = {op_id.decode(): score for op_id, score in _pairs(line)}
            eligible = waiting[(queue, tenant)]
            compare(f"line of {queue}|{tenant}", set(lined), set(eligible))
            for op_id, score in lined.items():
                if op_id in eligible:
                    at = _BASE_MS + int(score // _STEPS)
                    compare(f"place of {op_id} in its line, ms", at, eligible[op_id])
            if lined:
                heads[tenant] = min(lined.values())
                turns.add(tenant)
        own = totals(store, queue)
        faults += _identity(queue, own)
        for gauge in _GAUGES:
            number = sum(row[gauge] for (q, _), row in held.items() if q == queue)
            compare(f"{queue} {gauge}", own.get(gauge, 0), number)
        for name in ("offered", "accepted", "refused", *TERMINAL, "started", "quarantined", "redelivered"):
            compare(f"{queue} {name} over its tenants", sums[name], own.get(name, 0))
        found_heads = {n.decode(): s for n, s in _pairs(client.zrange(f"{root}heads:{queue}", 0, -1, withscores=True))}
        compare(f"heads of {queue}", found_heads, heads)
        compare(f"turns of {queue}", {n.decode() for n in client.zrange(f"{root}turns:{queue}", 0, -1)}, turns)
        compare(f"delayed of {queue}", _members(store, f"delayed:{queue}"), delayed[queue])
    compare("leases", _members(store, "leases"), leased)
    compare("settled", _members(store, "settled"), settled)
    spooled = _members(store, "spool")
    compare("quarantined", {key.decode() for key in client.hkeys(root + "quarantined")}, spooled)
    compare("payloads", set(lengths), wanted_payloads | spooled)
    compare("links", {key.decode() for key in client.hkeys(root + "links")}, _members(store, "links:until"))
    for queue, count in store.recount().items():
        for gauge in _GAUGES:
            compare(f"recount of {queue} {gauge}", count[gauge], totals(store, queue).get(gauge, 0))
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
        faults.append(f"{name}: offered {get('offered')} != accepted {get('accepted')} + refused {get('refused')}")
    placed = sum(get(field) for field in ("depth", "delayed", "in_flight", *TERMINAL))
    if get("accepted") != placed:
        faults.append(f"{name}: accepted {get('accepted')} != {placed} in its places: {row}")
    reasons = sum(int(value) for field, value in row.items() if field.startswith("refused:"))
    if reasons != get("refused"):
        faults.append(f"{name}: refused {get('refused')} != {reasons} by reason")
    faults += [f"{name}: {field} is {value}" for field, value in row.items() if value < 0]
    return faults


def _members(store: Store, name: str) -> set[str]:
    return {member.decode() for member in store.client.zrange(store.root + name, 0, -1)}


def _pairs(found: Any) -> list[tuple[bytes, float]]:
    return [(member, float(score)) for member, score in found]


def _numbers(row: dict[bytes, bytes]) -> dict[str, float]:
    return {field.decode(): float(value) for field, value in row.items()}

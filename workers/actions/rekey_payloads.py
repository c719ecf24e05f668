"""Encrypt what is stored with the first key: after a rotation, or once encryption is turned on."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from ..models import QuarantinedJob
from ..privacy.seal import key_id_of, keyring
from ..store import Store
from .actor import Actor, NotPossible, Result
from .journal import require_role, write_entry

VERB: Final = "rekey_payloads"
ROWS: Final = 200
CLEAR: Final = "in clear"


def execute(actor: Actor, *, store: Store, reason: str = "") -> Result:
    """Waiting, delayed and running jobs in Redis, held ones in the database. May be run again at any time."""
    require_role(actor, "admin", VERB, reason=reason)
    keys = keyring()
    if not keys:
        raise NotPossible("invalid", "There is no key: set SLUICEGATE_PAYLOAD_KEYS.", field="keys")
    changed = {"redis": _rekey_redis(store), "quarantine": _rekey_rows()}
    data = {"key": keys.current, "changed": changed, "left": count_keys(store)}
    write_entry(actor, VERB, target=keys.current, reason=reason, after=data)
    return Result(VERB, keys.current, data)


def count_keys(store: Store) -> dict[str, dict[str, int]]:
    """For how many payloads each key is needed, in Redis and in the database; of no key: in clear."""
    in_redis: Counter[str] = Counter()
    after = "0"
    while True:
        page = store.count_keys(after)
        in_redis.update(page.counts)
        after = page.after
        if after == "0":
            break
    rows = QuarantinedJob.objects.exclude(payload=b"").order_by().values_list("key_id", flat=True)
    held = Counter(rows.iterator(chunk_size=1000))
    return {
        "redis": {key or CLEAR: number for key, number in in_redis.items()},
        "quarantine": {key or CLEAR: number for key, number in held.items()},
    }


def _rekey_redis(store: Store) -> int:
    keys, changed, after = keyring(), 0, "0"
    while True:
        page = store.count_keys(after, current=keys.current)
        for field in page.others:
            old = store.read_payload(field)
            new = _renew(old, field.removesuffix(":next")) if old else None
            if old and new and store.swap_payload(field, old, new):
                changed += 1
        after = page.after
        if after == "0":
            return changed


def _rekey_rows() -> int:
    keys, changed, last = keyring(), 0, 0
    others = QuarantinedJob.objects.exclude(key_id=keys.current).exclude(payload=b"").order_by("pk")
    while page := list(others.filter(pk__gt=last).only("pk", "op_id", "payload")[:ROWS]):
        last = page[-1].pk
        for job in page:
            old = bytes(job.payload)
            new = _renew(old, job.op_id)
            if new is not None:
                same = QuarantinedJob.objects.filter(pk=job.pk, payload=old)
                changed += same.update(payload=new, key_id=key_id_of(new) or "")
    return changed


def _renew(stored: bytes, op_id: str) -> bytes | None:
    keys = keyring()
    try:
        return keys.seal(keys.open(stored, op_id), op_id)
    except ValueError:
        return None  # its key is not here: counted as left


def read_needed(store: Store) -> dict[str, Any]:
    """What doctor says: keys in use, and payloads that need another than the first."""
    keys = keyring()
    needed: Counter[str] = Counter()
    for part in count_keys(store).values():
        needed.update(part)
    clear = needed.pop(CLEAR, 0)
    return {"ids": keys.ids, "needed": dict(needed), "clear": clear}

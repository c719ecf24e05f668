"""Encrypt what is stored with the first key: after a rotation, or once encryption is turned on."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from django.db.models import Q, QuerySet

from ..models import QuarantinedJob
from ..models.quarantined_job import NO_WORDS
from ..privacy.errors import WITHHELD, reseal_words, seal_words
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
    changed = {"redis": _rekey_redis(store), "quarantine": _rekey_rows(), "errors": _rekey_words()}
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
    words = _with_words().values_list("words_key_id", flat=True)
    errors = Counter(words.iterator(chunk_size=1000))
    return {
        "redis": {key or CLEAR: number for key, number in in_redis.items()},
        "quarantine": {key or CLEAR: number for key, number in held.items()},
        "errors": {key or CLEAR: number for key, number in errors.items()},
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


def _with_words() -> QuerySet[QuarantinedJob]:
    """Rows with words that their class withholds, in clear or not."""
    some = ~Q(words_key_id="") | ~Q(message="") | ~Q(traceback="")
    return QuarantinedJob.objects.filter(some, payload_class__in=WITHHELD).order_by()


def _rekey_words() -> int:
    """Encrypts what stands in clear, too: from before there was a key, or before errors were encrypted."""
    current, changed, last = keyring().current, 0, 0
    others = _with_words().exclude(words_key_id=current).order_by("pk").defer("payload", "args_text")
    while page := list(others.filter(pk__gt=last)[:ROWS]):
        last = page[-1].pk
        for job in page:
            if job.words_key_id:
                words = reseal_words(bytes(job.words_sealed), job.op_id) or b""
            else:
                words = seal_words(
                    job.message, job.traceback, payload_class=job.payload_class, op_id=job.op_id
                )
            if words:
                same = QuarantinedJob.objects.filter(pk=job.pk, words_key_id=job.words_key_id)
                new = {**NO_WORDS, "words_sealed": words, "words_key_id": key_id_of(words) or ""}
                changed += same.exclude(state=QuarantinedJob.DELETED).update(**new)
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

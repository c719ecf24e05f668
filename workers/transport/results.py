"""Where do results go, so that a full or absent Redis does not turn a done job into a failed one?"""

from __future__ import annotations

import threading
from typing import Any

from celery.backends.redis import RedisBackend

from ..privacy.classes import handling_of
from ..privacy.seal import keyring, unseal

#: Longest stored result in characters of JSON; what is longer is named, not kept.
MAX_RESULT = 1_048_576
#: What a sealed result is bound to; the backend is not told whose it encodes.
RESULT = "result"

#: KEYS 1 result key. ARGV 1 seconds it is kept (0 = for good), 2 value. The removal first lets a full
#: Redis store it: the result of accepted work is part of that work.
_STORE = """
redis.call('DEL', KEYS[1] .. ':nothing')
if ARGV[1] == '0' then redis.call('SET', KEYS[1], ARGV[2])
else redis.call('SETEX', KEYS[1], ARGV[1], ARGV[2]) end
redis.call('PUBLISH', KEYS[1], ARGV[2])
return 1
"""


class ResultBackend(RedisBackend):
    """Celery's Redis backend, for ``result_backend = "sluicegate://..."``.

    Differs in four things: a result is stored even when Redis is at its memory limit, one of more than a
    megabyte is replaced by a note of its size, one of a class that is kept for less goes sooner, and with
    payload keys it is encrypted.
    """

    _storing = threading.local()

    def _store_result(
        self, task_id: Any, result: Any, state: Any, traceback: Any = None, request: Any = None, **kw: Any
    ) -> Any:
        self._storing.kept_s = handling_of(getattr(request, "payload_class", None)).result_kept_s
        try:
            return super()._store_result(task_id, result, state, traceback, request=request, **kw)
        finally:
            self._storing.kept_s = None

    def encode(self, data: Any) -> Any:
        encoded = super().encode(data)
        keys = keyring()
        if not keys:
            return encoded
        return keys.seal(encoded.encode() if isinstance(encoded, str) else encoded, RESULT)

    def decode(self, payload: Any) -> Any:
        return super().decode(unseal(payload, RESULT) if isinstance(payload, bytes) else payload)

    def _set(self, key: Any, value: Any, expires: float | None = None) -> None:
        kept = self.expires if expires is None else expires
        most = getattr(self._storing, "kept_s", None)
        if most is not None:
            kept = min(int(kept or most), most)
        self.client.eval(_STORE, 1, key, int(kept or 0), value)

    def _get_result_meta(self, result: Any, state: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        meta: dict[str, Any] = super()._get_result_meta(result, state, *args, **kwargs)
        if state == "SUCCESS" and len(self.encode(meta["result"])) > MAX_RESULT:
            meta["result"] = {"sluicegate_left_out": f"a result of more than {MAX_RESULT} characters"}
        return meta

"""What do the raw structures say that the counters should?"""

from __future__ import annotations

from collections.abc import Collection

import redis

from . import scripts
from .replies import as_text
from .snapshots import GAUGES

#: Which gauge counts a record of each pending state.
_GAUGE_OF_STATE = {
    "waiting": "depth",
    "blocked": "depth",
    "parked": "depth",
    "delayed": "delayed",
    "spilled": "delayed",
    "leased": "in_flight",
}


def recount(
    client: redis.Redis, root: str, queues: Collection[str], suspended: Collection[str]
) -> dict[str, dict[str, int | None]]:
    """The gauges and the oldest of each queue, from every record. ``suspended`` tenants have no oldest.

    Raises:
        redis.RedisError, OSError: the server does not answer.
    """
    found: dict[str, dict[str, int | None]] = {}
    for queue in queues:
        found[queue] = dict.fromkeys(GAUGES, 0)
        found[queue]["oldest_eligible_at_ms"] = None
    for op_id, raw in client.hscan_iter(root + "ops", count=1000):
        row = scripts.unpack(raw)
        field = _GAUGE_OF_STATE.get(row["s"])
        if field is None:
            continue
        count = found[row["q"]]
        count[field] = (count[field] or 0) + 1
        if field == "in_flight":
            continue
        payload = client.hstrlen(root + "payloads", as_text(op_id))
        if row["s"] == "parked":
            count["parked"] = (count["parked"] or 0) + 1
        if row["s"] == "spilled":
            count["spilled"] = (count["spilled"] or 0) + 1
            count["spilled_bytes"] = (count["spilled_bytes"] or 0) + payload
            continue
        count["bytes"] = (count["bytes"] or 0) + payload
        if field == "depth":
            count["cost_ms"] = (count["cost_ms"] or 0) + row["c"]
            if row["s"] == "blocked" or row["n"] in suspended:
                continue
            eligible = row.get("e", row["a"])
            oldest = count["oldest_eligible_at_ms"]
            count["oldest_eligible_at_ms"] = eligible if oldest is None else min(oldest, eligible)
    return found

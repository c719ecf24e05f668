"""Does a job that goes the plain way leave the gate exactly as the general way would have?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.servers import RedisServer
from workers.store import Offer, Store, Verdict

from . import audit
from .conftest import publish

#: What differs between two gates though the same was done: times, and what is made from them.
TIMES = frozenset(
    {"a", "du", "e", "cm", "rp", "dd", "ob", "o", "last_score", "met", "next_return", "filled_at"}
)

#: Where the order is of places; elsewhere it is of ms, which may be the same.
PLACES = ("ready:", "heads:", "turns:", "spill:")

POLICIES: dict[str, dict[str, Any]] = {
    "no bounds": {},
    "count": {"max_count": 3},
    "bytes and cost": {"max_bytes": 60, "max_cost_ms": 300},
    "age": {"max_count": 10, "max_age_s": 60},
    "a promised wait": {"max_wait_s": 1.0},
    "a downstream": {"max_count": 8, "downstream": "bank"},
    "newest dropped": {"max_count": 2, "on_full": "drop_newest"},
    "oldest dropped": {"max_count": 2, "on_full": "drop_oldest"},
    "degraded": {"max_count": 2, "on_full": "degrade", "degrade_to": "cheap", "degrade_reserve": 1.0},
    "controlled delay": {"codel_target_ms": 100, "codel_interval_ms": 1000},
    "a promise": {"objective_s": 60.0, "objective_share": 0.9},
    "earliest deadline first": {"order": "edf"},
}
#: A queue with one of these has more to ask than its bounds.
NOT_PLAIN: dict[str, dict[str, Any]] = {
    "spilled": {"max_count": 2, "on_full": "spill", "spill_max_count": 2},
    "sampled": {"max_count": 4, "on_full": "sample", "high_mark": 0.5, "sample_rate": 0.5},
    "a waiting room": {"max_count": 2, "waiting_room_max": 5},
    "rate limits": {"rate_limits": [{"per": "tenant", "kind": "token_bucket", "limit": 3, "window_s": 60}]},
    "secret": {"payload_class": "secret"},
    "personal": {"payload_class": "personal"},
}

OFFER = st.fixed_dictionaries(
    {"tenant": st.sampled_from(["a", "b"]), "payload": st.sampled_from([b"x" * 10, b"y" * 40])},
    optional={
        "cost_ms": st.integers(1, 200),
        "deadline_ms": st.sampled_from([0, 3_600_000]),
        "api_key": st.just("key"),
        "tags": st.just(("tag",)),
        "trace": st.just("trace"),
        "offered_ago_ms": st.just(5),
        "delay_ms": st.sampled_from([0, 3_600_000]),
        "ordering_key": st.just("k"),
        "payload_class": st.sampled_from(["secret", "public"]),
    },
)


def contents(store: Store) -> dict[str, Any]:
    """All that a gate holds, without times and names that hold one."""
    found: dict[str, Any] = {}
    for raw in store.client.scan_iter(match=store.root + "*"):
        key, kind = raw.decode().removeprefix(store.root), store.client.type(raw)
        if kind == b"string" and not key.startswith("rate:"):  # that is a text with a time in it
            found[key] = without_times(store.client.get(raw))
        elif kind == b"hash":
            found[key] = {name: without_times(value) for name, value in store.client.hgetall(raw).items()}
        elif kind == b"zset":
            members = store.client.zrange(raw, 0, -1)
            found[key] = members if key.startswith(PLACES) else sorted(members)
        elif kind == b"list":
            found[key] = store.client.llen(raw)
    return found


def without_times(value: bytes) -> Any:
    try:
        read = msgpack.unpackb(value, raw=False, strict_map_key=False)
    except (ValueError, msgpack.UnpackException):
        return value
    return {k: v for k, v in read.items() if k not in TIMES} if isinstance(read, dict) else value


def told(verdict: Verdict) -> Any:
    return replace(verdict, accepted_at_ms=None, retry_after_s=None, rates=(), ticket=None)


@pytest.mark.parametrize("name", POLICIES | NOT_PLAIN)
@settings(max_examples=6, deadline=None)
@given(rows=st.lists(OFFER, min_size=1, max_size=6))
def test_both_ways_leave_the_same(redis_server: RedisServer, name: str, rows: list[dict[str, Any]]) -> None:
    stores = [Store.from_url(redis_server.url(), gate) for gate in ("plain", "general")]
    stores[0].client.flushall()
    for store in stores:
        publish(store, {"normal": (POLICIES | NOT_PLAIN)[name]})
    for number, row in enumerate(rows):
        offer = Offer(id=f"id{number}", task="t", queue="normal", **row)
        plain, general = (
            told(store.admit([replace(offer, minted=store.gate == "plain")])[0]) for store in stores
        )
        assert plain == general
    assert contents(stores[0]) == contents(stores[1])
    for store in stores:
        audit.check(store)
        store.client.close()


@pytest.mark.parametrize("name", POLICIES | NOT_PLAIN)
def test_it_is_taken_wherever_only_bounds_are_asked(store: Store, name: str) -> None:
    store.publish_policy("normal", (POLICIES | NOT_PLAIN)[name], version=2)
    store.client.config_resetstat()
    assert store.admit([Offer(id="new", task="t", queue="normal", payload=b"sg1:x", minted=True)])[0].accepted
    taken = "cmdstat_hsetnx" in store.client.info("commandstats")
    assert taken == (name in POLICIES)


def test_what_is_sent_twice_is_one_job(store: Store) -> None:
    offer = Offer(id="new", task="t", queue="normal", payload=b"x", minted=True)
    first, second = store.admit([offer])[0], store.admit([offer])[0]
    assert (first.duplicate_of, second.duplicate_of) == (None, "new")
    assert store.size("normal") == 1

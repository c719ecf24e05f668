"""What comes of whatever a stranger pushes onto a plain list?"""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.admission.inlet import InletReport, drain_inlet
from workers.store import Store

from . import audit

EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def stock_message(task: str = "t", args: Any = (), **headers: Any) -> dict[str, Any]:
    """A message as kombu's plain Redis transport pushes it."""
    op_id = str(uuid.uuid4())
    given = {"lang": "py", "task": task, "id": op_id, "retries": 0, "eta": None, "expires": None}
    return {
        "body": base64.b64encode(json.dumps([list(args), {}, EMBED]).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {**given, **headers},
        "properties": {
            "correlation_id": op_id,
            "reply_to": "",
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "normal"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": op_id,
        },
    }


def push(store: Store, *messages: Any, key: str = "normal") -> None:
    for message in messages:
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        store.client.lpush(key, raw)


GOOD = stock_message()
ODD: dict[str, Any] = {
    "not-json": b"not-json",
    "a pickle": b"\x80\x04K*.",
    "nothing": b"",
    "a number": b"42",
    "deep nesting": b"[" * 100_000,
    "a body of %%%": {**GOOD, "body": "%%%"},
    "a body of 42": {**GOOD, "body": "NDI="},
    "a body of null": {**GOOD, "body": None},
    "no body": {key: value for key, value in GOOD.items() if key != "body"},
    "empty headers": {**GOOD, "headers": {}},
    "headers that are a list": {**GOOD, "headers": []},
    "properties that are text": {**GOOD, "properties": "x"},
    "pickled content": {**GOOD, "content-type": "application/x-python-serialize"},
    "an eta of tomorrow": stock_message(eta="tomorrow"),
    "an endless eta": stock_message(eta=1e308),
    "an eta of a thousand digits": json.dumps(stock_message(eta=0))
    .replace('"eta": 0', f'"eta": {"9" * 1000}')
    .encode(),
    "an eta in a list": stock_message(eta=["x"]),
    "an expiry of NaN": stock_message(expires=float("nan")),
    "half a character in its id": stock_message(id="\ud800"),
    "half a character in its name": stock_message(task="\udfff"),
    "half a character in its tenant": stock_message(tenant="\ud800"),
    "an id that is too long": stock_message(id="x" * 5_000),
    "an id that is a number": stock_message(id=7),
    "a tenant that is a map": stock_message(tenant={"a": 1}),
    "a cost in words": stock_message(sluicegate={"cost_ms": "much"}),
    "a cost that is a list": stock_message(sluicegate={"cost_ms": [1]}),
    "a cost of infinity": stock_message(sluicegate={"cost_ms": float("inf")}),
    "a deadline in words": stock_message(sluicegate={"deadline_ms": "soon"}),
    "tags that are a number": stock_message(sluicegate={"tags": 5}),
    "an ordering key that is a map": stock_message(sluicegate={"ordering_key": {"a": 1}}),
    "a sequence that is no number": stock_message(sluicegate={"source_sequence": "first"}),
    "links that are a number": {**GOOD, "properties": {**GOOD["properties"], "sluicegate_links": 5}},
}


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_offered_is_held_as_it_is_and_does_not_hold_up_others(store: Store, name: str) -> None:
    push(store, ODD[name], stock_message())
    assert drain_inlet(store, ["normal"]) == InletReport(admitted=1, held=1, left=0)
    raw = ODD[name] if isinstance(ODD[name], bytes) else json.dumps(ODD[name]).encode()
    (record,) = store.read_quarantine_spool()
    assert (record.payload, record.reason) == (raw, "undecodable")
    assert record.message
    assert store.client.llen("normal") == 0


def test_a_good_message_keeps_its_id_and_is_taken_once(store: Store) -> None:
    message = stock_message(tenant="acme")
    push(store, message, message)
    drain_inlet(store, ["normal"])
    operation = store.read_operation(message["headers"]["id"])
    assert operation is not None
    assert (operation.tenant, operation.task, store.size("normal")) == ("acme", "t", 1)
    assert store.client.llen("normal") == 0


def test_priorities_of_kombu_are_all_read(store: Store) -> None:
    for step in ("", "\x06\x163", "\x06\x166", "\x06\x169"):
        push(store, stock_message(), key="normal" + step)
    assert drain_inlet(store, ["normal"]).admitted == 4


def test_what_finds_no_room_stays_in_order_and_is_counted(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 2}, version=2)
    messages = [stock_message() for _ in range(5)]
    push(store, *messages)
    assert drain_inlet(store, ["normal"]) == InletReport(admitted=2, held=0, left=1)
    assert store.client.llen("normal") == 3
    assert store.snapshot()["queues"]["normal"]["inlet"] == 3
    for _ in store.claim("w", ["normal"], 2):
        pass
    assert drain_inlet(store, ["normal"]).admitted == 2
    assert json.loads(store.client.lindex("normal", -1))["headers"]["id"] == messages[4]["headers"]["id"]


def test_what_will_never_fit_does_not_stand_in_the_way(store: Store) -> None:
    store.publish_policy("normal", {"max_bytes": 3_000}, version=2)
    push(
        store,
        stock_message(args=["x" * 5_000]),
        stock_message(expires="2001-01-01T00:00:00+00:00"),
        stock_message(),
    )
    report = drain_inlet(store, ["normal"])
    assert report.admitted >= 1
    assert store.client.llen("normal") == 0


def test_a_queue_that_drops_the_newest_drops_it_from_its_inlet_once(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1, "on_full": "drop_newest"}, version=2)
    push(store, *(stock_message() for _ in range(4)))
    drain_inlet(store, ["normal"])
    assert store.client.llen("normal") == 0
    row = audit.totals(store, "normal")
    assert (row["offered"], row["accepted"], row["refused"]) == (4, 1, 3)


def test_a_stock_retry_of_work_that_was_never_here_waits_for_room_like_a_new_job(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)
    push(store, stock_message(), stock_message(retries=2))
    report = drain_inlet(store, ["normal"])
    assert (report.admitted, report.left) == (1, 1)
    store.publish_policy("normal", {"max_count": 2}, version=3)
    assert drain_inlet(store, ["normal"]).admitted == 1
    assert audit.totals(store, "normal").get("over_bound", 0) == 0


def test_a_key_of_another_type_is_left_alone(store: Store) -> None:
    store.client.set("normal", "not a list")
    assert drain_inlet(store, ["normal"]) == InletReport()
    assert store.client.get("normal") == b"not a list"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
HEADERS = (
    "id",
    "task",
    "eta",
    "expires",
    "tenant",
    "retries",
    "timelimit",
    "replaced_task_nesting",
    "sluicegate",
)
FACTS = (
    "cost_ms",
    "deadline_ms",
    "offered_ago_ms",
    "ordering_key",
    "source_sequence",
    "idempotency_key",
    "tags",
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    top=st.dictionaries(st.sampled_from(sorted(GOOD)), JSON, max_size=2),
    headers=st.dictionaries(st.sampled_from(HEADERS), JSON, max_size=2),
    facts=st.dictionaries(st.sampled_from(FACTS), JSON, max_size=2),
)
def test_no_message_stops_the_inlet(store: Store, top: Any, headers: Any, facts: Any) -> None:
    message = stock_message(**{"sluicegate": facts, **headers}) | top
    push(store, message)
    report = drain_inlet(store, ["normal"], limit=5)
    left = store.client.llen("normal")
    store.purge("normal", by="t")
    assert (report.admitted + report.held, report.left, left) == (1, 0, 0)

"""Does a worker get the message that the producer made, whatever the producer put in it?"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from celery import Celery
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.admission import envelope
from workers.admission.offers import build_offer
from workers.privacy.redact import scrub_text

APP = Celery("envelope", set_as_current=False)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUE = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT | st.lists(TEXT, max_size=2)
#: Headers that Celery sets and strangers change.
NAMES = st.sampled_from(
    [
        "lang",
        "shadow",
        "expires",
        "group",
        "group_index",
        "retries",
        "timelimit",
        "root_id",
        "parent_id",
        "argsrepr",
    ]
)


def a_message(op_id: str, args: Any, kwargs: Any) -> dict[str, Any]:
    made = APP.amqp.create_task_message(op_id, "t", args, kwargs)
    return {
        "body": base64.b64encode(json.dumps(made.body).encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": dict(made.headers),
        "properties": {**made.properties, "delivery_mode": 2, "priority": 0, "body_encoding": "base64"},
    }


def through_the_gate(message: dict[str, Any]) -> dict[str, Any]:
    stored = json.loads(json.dumps(envelope.shrink(message)))
    return envelope.restore(
        stored,
        op_id=message["headers"]["id"],
        task=message["headers"]["task"],
        queue="q",
        delivery_tag="7/x",
        epoch=7,
    )


@settings(max_examples=200, deadline=None)
@given(
    args=st.lists(VALUE, max_size=3),
    kwargs=st.dictionaries(TEXT, VALUE, max_size=2),
    changed=st.dictionaries(NAMES, VALUE, max_size=3),
    added=st.dictionaries(TEXT.map(lambda name: "x-" + name), VALUE, max_size=2),
    dropped=st.sets(NAMES, max_size=3),
    extra=st.dictionaries(
        st.sampled_from(["reply_to", "priority", "correlation_id", "type"]), VALUE, max_size=2
    ),
)
def test_what_is_stored_small_comes_back_whole(
    args: Any, kwargs: Any, changed: Any, added: Any, dropped: Any, extra: Any
) -> None:
    message = a_message("the-id", args, kwargs)
    message["headers"] = {
        k: v for k, v in {**message["headers"], **changed, **added}.items() if k not in dropped
    }
    message["properties"] |= extra
    back = through_the_gate(message)
    assert back["body"] == message["body"]
    for volatile in ("eta", "sluicegate_epoch", "sluicegate_taken_at", "payload_class"):
        back["headers"].pop(volatile)
    wanted = {name: value for name, value in message["headers"].items() if name != "eta"}
    for name in ("argsrepr", "kwargsrepr"):
        # What Celery logs of a call: without what a name gives away.
        if isinstance(wanted.get(name), str):
            wanted[name] = scrub_text(wanted[name])
    assert back["headers"] == wanted
    for name, value in message["properties"].items():
        assert back["properties"][name] == value


def test_the_tag_and_the_epoch_are_of_this_delivery() -> None:
    back = through_the_gate(a_message("i", [], {}))
    assert back["properties"]["delivery_tag"] == "7/x"
    assert back["headers"]["sluicegate_epoch"] == 7
    assert back["headers"]["eta"] is None


def test_a_small_message_stays_small() -> None:
    offer = build_offer(APP, "t", [1], {}, queue="normal", tenant="default")
    assert len(offer.payload) < 300


@pytest.mark.parametrize("links", [0, 3])
def test_an_offer_names_its_later_links_and_the_message_does_not(links: int) -> None:
    from datetime import UTC, datetime

    from workers.admission.messages import offer_from_message

    message = a_message("i", [], {})
    message["properties"]["sluicegate_links"] = [f"l{n}" for n in range(links)]
    offer = offer_from_message(message, "normal", now=datetime.now(UTC))
    assert len(offer.links) == links
    assert b"sluicegate_links" not in offer.payload

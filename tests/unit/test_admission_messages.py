"""Is what a producer says beside its job taken as it is meant, or refused by the field at fault?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from workers.admission.messages import MAX_COST_MS, MAX_KEY, MAX_TAG, MAX_TAGS, offer_from_message
from workers.exceptions import OfferError
from workers.store import Offer

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def read(facts: dict[str, Any] | None = None, **headers: Any) -> Offer:
    return offer_from_message(
        {
            "body": "W1tdLCB7fSwge31d",
            "headers": {"id": "i", "task": "t", **({"sluicegate": facts} if facts else {}), **headers},
            "properties": {"body_encoding": "base64"},
        },
        "normal",
        now=NOW,
    )


KEYS = ("ordering_key", "coalesce_key", "idempotency_key", "downstream", "ticket", "trace", "replay_of")


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        *(({key: value}, key) for key in KEYS for value in ("", "k" * (MAX_KEY + 1), "\ud800", 7, ["k"])),
        *(
            ({"cost_ms": value}, "cost_ms")
            for value in (-1, MAX_COST_MS + 1, "5", True, float("nan"), 10**400)
        ),
        *(({"source_sequence": value}, "source_sequence") for value in (-1, 2**53, 1.5, "1", float("inf"))),
        *(({"deadline_ms": value}, "deadline_ms") for value in (10**15, -(10**15), "soon", float("nan"))),
        *(({"offered_ago_ms": value}, "offered_ago_ms") for value in (-1, 10**15)),
        ({"replay_until_at_ms": -1}, "replay_until_at_ms"),
        ({"tags": ["t"] * (MAX_TAGS + 1)}, "tags"),
        ({"tags": ["t" * (MAX_TAG + 1)]}, "tags"),
        ({"tags": [""]}, "tags"),
        ({"tags": "t"}, "tags"),
    ],
)
def test_a_fact_that_makes_no_sense_is_refused_by_its_name(facts, field) -> None:
    with pytest.raises(OfferError) as refused:
        read(facts)
    assert refused.value.field == field
    assert refused.value.fix
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"tenant": "t" * 201}, "headers.tenant"),
        ({"tenant": "\udfff"}, "headers.tenant"),
        ({"tenant": 7}, "headers.tenant"),
        ({"id": ""}, "headers.id"),
        ({"task": "t" * 201}, "headers.task"),
        ({"retries": -1}, "headers.retries"),
        ({"retries": 10**30}, "headers.retries"),
        ({"replaced_task_nesting": 2**31}, "headers.replaced_task_nesting"),
        ({"eta": "tomorrow"}, "headers.eta"),
        ({"eta": "2226-01-01T00:00:00Z"}, "headers.eta"),
        ({"expires": 1e300}, "headers.expires"),
        ({"expires": [5]}, "headers.expires"),
        ({"timelimit": [-1, None]}, "headers.timelimit"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_by_its_name(headers, field) -> None:
    with pytest.raises(OfferError) as refused:
        read(**headers)
    assert refused.value.field == field
    assert refused.value.fix


@pytest.mark.parametrize(
    "text",
    [
        "k",
        "k" * MAX_KEY,
        "schlüssel",
        "مفتاح",
        "ключ",
        "鍵",
        "🔑",
        "a\x00b",
        "\u202eabc",
        "a\r\nb",
        "a|b:c",
        " ",
    ],
)
def test_keys_and_tags_of_any_script_are_taken_as_they_are(text: str) -> None:
    offer = read({**dict.fromkeys(KEYS, text), "tags": [text[:MAX_TAG]]})
    assert [getattr(offer, key) for key in KEYS] == [text] * len(KEYS)
    assert offer.tags == (text[:MAX_TAG],)
    assert offer.pack()


def test_a_tenant_may_have_any_name() -> None:
    for name in ("Ω" * 200, "\x00", "\u202e\u2066", "a\tb\x1b[2J", "-"):
        assert read(tenant=name).tenant == name
    assert read(tenant="").tenant == read(tenant=None).tenant == "default"


def test_a_moment_that_has_passed_is_now_and_an_expiry_that_has_is_told_to_the_gate() -> None:
    offer = read(eta=(NOW - timedelta(days=2)).isoformat(), expires=(NOW - timedelta(seconds=1)).isoformat())
    assert (offer.delay_ms, offer.deadline_ms) == (0, -1000)
    assert read({"deadline_ms": -5}).deadline_ms == -5
    assert read({"source_sequence": 2**53 - 1}).source_sequence == 2**53 - 1
    assert read({"source_sequence": 0}).source_sequence == 0
    assert read({"cost_ms": 12.7}).cost_ms == 12

"""Is a replay offered as a fresh job, under an id that cannot double?"""

from __future__ import annotations

import base64
import json
import uuid

from workers.quarantine.arguments import describe_arguments, storable
from workers.quarantine.bounds import Held, choose_dropped
from workers.quarantine.replay import (
    affordable,
    downstream_rate,
    make_offer,
    renew_payload,
    replay_id,
    why_wait,
)

BATCH = uuid.UUID(int=5)
BODY = base64.b64encode(json.dumps([[1, "x"], {"k": 2}, {}]).encode()).decode()
PAYLOAD = json.dumps({"b": BODY, "h": {"task": "t", "retries": 3, "expires": "2020-01-01"}, "p": {}}).encode()


def test_the_same_batch_and_job_give_the_same_id_and_another_batch_another() -> None:
    assert replay_id(BATCH, "a") == replay_id(BATCH, "a")
    assert len({replay_id(BATCH, "a"), replay_id(BATCH, "b"), replay_id(uuid.UUID(int=6), "a")}) == 3


def test_retries_and_expiry_that_ran_out_are_forgotten() -> None:
    renewed = renew_payload(PAYLOAD)
    assert renewed is not None
    assert json.loads(renewed)["h"] == {"task": "t"}
    assert json.loads(renewed)["b"] == BODY


def test_what_is_no_message_cannot_be_offered() -> None:
    for payload in (b"not-json", b"42", b'{"b": 1}', b"\x80\x04pickle", b""):
        assert renew_payload(payload) is None


def test_the_offer_names_what_it_replays() -> None:
    offer = make_offer(
        batch_id=BATCH, op_id="a", task="t", queue="q", tenant="n", payload=PAYLOAD, replay_until_at_ms=None
    )
    assert offer is not None
    assert (offer.replay_of, offer.id, offer.retries, offer.tenant) == ("a", replay_id(BATCH, "a"), 0, "n")


def test_replays_wait_while_draining_and_behind_live_work() -> None:
    def frame(mode: str, state: str) -> dict[str, object]:
        return {"queues": [{"name": "q", "mode": mode, "state": state}]}

    assert why_wait("q", frame("normal", "in_bounds")) == ""
    assert why_wait("q", frame("draining", "in_bounds")) == "q is draining"
    assert "live work goes first" in why_wait("q", frame("normal", "past_guard"))


def test_the_rate_is_kept() -> None:
    assert affordable(rate_per_s=20, since_s=0.2) == 4
    assert affordable(rate_per_s=1, since_s=0.9) == 0


def test_arguments_are_shown_as_text_and_never_unpickled() -> None:
    assert describe_arguments(PAYLOAD, "public") == '{"args": [1, "x"], "kwargs": {"k": 2}}'
    assert describe_arguments(b"\x80\x04\x95", "public") == "\\x80\x04\\x95"
    assert describe_arguments(b'{"body": "%%%"}', "public") == '{"body": "%%%"}'
    assert len(describe_arguments(b"x" * 10_000, "public")) < 4_100


def test_text_is_made_fit_for_every_database() -> None:
    assert storable("a\x00b\ud800") == "a\ufffdb?"


def test_the_oldest_go_first_unless_the_newest_are_to() -> None:
    held = [Held(pk=n, at_ms=n, bytes=10) for n in range(5)]
    assert choose_dropped(held, max_count=3, max_bytes=None, on_full="drop_oldest") == [0, 1]
    assert choose_dropped(held, max_count=3, max_bytes=None, on_full="drop_newest") == [4, 3]
    assert choose_dropped(held, max_count=None, max_bytes=25, on_full="drop_oldest") == [0, 1, 2]
    assert choose_dropped(held, max_count=None, max_bytes=None, on_full="drop_oldest") == []


def test_a_replay_goes_no_faster_than_the_downstream_bears() -> None:
    frame = {
        "queues": [{"name": "q", "downstream": "bank"}, {"name": "free", "downstream": None}],
        "downstreams": [{"name": "bank", "limit": 3, "mean_ms": 150.0}],
    }
    assert downstream_rate("q", frame) == 20.0
    assert downstream_rate("free", frame) is None
    assert downstream_rate("gone", frame) is None
    frame["downstreams"][0]["mean_ms"] = None
    assert downstream_rate("q", frame) is None


def test_a_replay_and_a_retry_find_the_downstream_in_the_message() -> None:
    message = json.loads(PAYLOAD)
    message["h"]["sluicegate"] = {"downstream": "bank"}
    payload = json.dumps(message).encode()
    offer = make_offer(
        batch_id=BATCH, op_id="a", task="t", queue="q", tenant="n", payload=payload, replay_until_at_ms=None
    )
    assert offer is not None and offer.downstream == "bank"

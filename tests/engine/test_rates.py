"""Does a rate limit let through what its definition says, however the clock steps and producers race?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgpack
import pytest
from celery import Celery, group
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.admission.policy import parse_policy
from workers.exceptions import AdmissionRefused
from workers.store import Store, scripts

from . import audit
from .test_admission import an_offer
from .test_races import PRODUCERS, all_at_once
from .test_refusals import app  # noqa: F401

START_MS = 1_800_000_000_123
HARNESS = """
local fits, state, wait, left, rest = KINDS[ARGV[1]](ARGV[2], tonumber(ARGV[3]),
  {limit = tonumber(ARGV[4]), burst = tonumber(ARGV[5]), window = tonumber(ARGV[6])}, tonumber(ARGV[7]))
return cmsgpack.pack({fits, state, wait or false, left, rest})
"""
PURE = (scripts.LUA_DIR / "includes" / "rates.lua").read_text() + HARNESS


class Limiter:
    """The scripts' own arithmetic under a clock of the test's."""

    def __init__(self, store: Store, kind: str, limit: int, burst: int, window: int) -> None:
        self.run = store.client.register_script(PURE)
        self.facts = (kind, limit, burst, window)
        self.state = ""

    def ask(self, now: int, number: int = 1) -> tuple[bool, int | None, int, int]:
        kind, limit, burst, window = self.facts
        fits, state, wait, left, rest = msgpack.unpackb(
            self.run(args=[kind, self.state, now, limit, burst, window, number])
        )
        self.state = state
        return fits, None if wait is False else wait, left, rest


steps = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 7, 40, 99, 100, 250, 1000, 2500, -30, -5000]), st.integers(1, 4)),
    min_size=1,
    max_size=50,
)
shape = st.tuples(st.integers(1, 8), st.integers(1, 10), st.sampled_from([1, 50, 100, 1000, 61_000]))
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(shape=shape, steps=steps, kind=st.sampled_from(["token_bucket", "leaky_bucket"]))
def test_a_bucket_holds_burst_and_gains_limit_a_window(
    store: Store, shape: tuple[int, int, int], steps: Any, kind: str
) -> None:
    limit, burst, window = shape
    limiter, now = Limiter(store, kind, limit, burst, window), START_MS
    # The model counts by the window-th of a token; time that runs backwards brings none.
    tokens, at = burst * window, now
    for step, number in steps:
        now += step
        tokens, at = min(burst * window, tokens + max(0, now - at) * limit), now
        fits, wait, left, _ = limiter.ask(now, number)
        assert fits == (tokens >= number * window)
        if fits:
            tokens -= number * window
            assert left == tokens // window
        elif number > burst:
            assert wait is None
        else:
            assert wait is not None
            assert tokens + wait * limit >= number * window > tokens + (wait - 1) * limit
            assert left == tokens // window


@quick
@given(shape=shape, steps=steps)
def test_a_fixed_window_begins_anew_at_whole_multiples(
    store: Store, shape: tuple[int, int, int], steps: Any
) -> None:
    limit, _, window = shape
    limiter, now = Limiter(store, "fixed_window", limit, 1, window), START_MS
    current, count = now // window, 0
    for step, number in steps:
        now += step
        if now // window > current:
            count = 0
        current = now // window  # where the clock went back, what was counted counts as of now
        fits, wait, left, _ = limiter.ask(now, number)
        assert fits == (count + number <= limit)
        if fits:
            count += number
        elif number <= limit:
            assert wait is not None
            assert ((now + wait) // window, (now + wait) % window) == (current + 1, 0)
        else:
            assert wait is None
        assert left == limit - count


@quick
@given(shape=shape, steps=steps)
def test_no_stretch_of_a_sliding_window_holds_more_and_little_is_refused_in_vain(
    store: Store, shape: tuple[int, int, int], steps: Any
) -> None:
    limit, _, window = shape
    limiter, now = Limiter(store, "sliding_window", limit, 1, window), START_MS
    # What surely counts and what may: jobs are forgotten by the sixtieth of a window.
    surely: list[int] = []
    maybe: list[int] = []
    for step, number in steps:
        now += step
        # Where the clock went back, what was counted counts as of now.
        surely = [min(at, now) for at in surely if at > now - window]
        maybe = [min(at, now) for at in maybe if at > now - window - -(-window // 60)]
        fits, wait, left, _ = limiter.ask(now, number)
        if fits:
            assert len(surely) + number <= limit
            surely += [now] * number
            maybe += [now] * number
        else:
            assert len(maybe) + number > limit
            if number > limit:
                assert wait is None
            else:
                assert wait is not None
                assert wait > 0
                assert sum(1 for at in surely if at > now + wait - window) + number <= limit
        assert limit - len(maybe) <= left <= limit - len(surely)


def limit(per: str = "queue", number: int = 5, **about: Any) -> dict[str, Any]:
    return parse_policy(
        {"rate_limits": [{"per": per, "limit": number, "window_s": 3600, **about}]}
    ).as_fields()["rate_limits"][0]


KINDS: list[dict[str, Any]] = [{"kind": "token_bucket"}, {"kind": "leaky_bucket", "burst": 50}]
KINDS += [{"kind": "fixed_window"}, {"kind": "sliding_window"}]


@pytest.mark.parametrize("about", KINDS, ids=lambda about: about["kind"])
def test_never_more_than_the_limit_however_many_producers_race(
    store: Store, redis_url: str, about: dict[str, Any]
) -> None:
    store.publish_policy("normal", {"rate_limits": [limit(number=50, **about)]}, version=2)
    told = Counter(
        word
        for words in all_at_once(
            redis_url, PRODUCERS, lambda own, _: [own.admit([an_offer()])[0].reason for _ in range(10)]
        )
        for word in words
    )
    assert told == {None: 50, "rate": PRODUCERS * 10 - 50}
    assert store.size("normal") == 50
    assert audit.totals(store, "normal")["refused:rate"] == PRODUCERS * 10 - 50


def test_each_tenant_and_each_key_has_its_own(store: Store) -> None:
    store.publish_policy("normal", {"rate_limits": [limit("tenant", 4), limit("key", 2)]}, version=2)

    def ask(tenant: str, key: str | None) -> list[bool]:
        return [store.admit([an_offer(tenant=tenant, api_key=key)])[0].accepted for _ in range(3)]

    assert ask("a", "1") == [True, True, False]
    assert ask("a", "2") == [True, True, False]
    assert ask("a", "3") == [False] * 3  # the tenant's four are used
    assert ask("b", "1") == [True, True, False]  # another tenant's key of the same name
    assert ask("b", None) == [True, True, False]  # without a key: a tenant's offers count as one


def test_what_is_refused_by_one_limit_is_not_charged_to_another(store: Store) -> None:
    store.publish_policy("normal", {"rate_limits": [limit("queue", 3), limit("tenant", 1)]}, version=2)
    assert store.admit([an_offer(tenant="a")])[0].accepted
    refused = store.admit([an_offer(tenant="a")])[0]
    assert [(rate.per, rate.left) for rate in refused.rates] == [("queue", 2), ("tenant", 0)]
    assert [store.admit([an_offer(tenant=t)])[0].accepted for t in "bcd"] == [True, True, False]


def test_what_a_bound_refuses_is_not_charged(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1, "rate_limits": [limit(number=2)]}, version=2)
    assert [store.admit([an_offer()])[0].reason for _ in range(5)] == [None, *["count"] * 4]
    store.publish_policy("normal", {"max_count": 9, "rate_limits": [limit(number=2)]}, version=3)
    assert [store.admit([an_offer()])[0].reason for _ in range(2)] == [None, "rate"]


def test_a_limit_that_refuses_sheds_nothing(store: Store) -> None:
    policy = {"max_count": 2, "on_full": "drop_oldest", "rate_limits": [limit(number=2)]}
    store.publish_policy("normal", policy, version=2)
    assert [store.admit([an_offer()])[0].reason for _ in range(4)] == [None, None, "rate", "rate"]
    assert audit.totals(store, "normal").get("shed", 0) == 0


def test_a_canvas_is_charged_whole_or_not_at_all(store: Store) -> None:
    store.publish_policy("normal", {"rate_limits": [limit(number=5)]}, version=2)
    refused = store.admit([an_offer() for _ in range(6)], whole=True)
    assert {v.reason for v in refused} == {"rate"}
    assert {v.retry_after_s for v in refused} == {60.0}  # more than ever fit
    assert all(v.accepted for v in store.admit([an_offer() for _ in range(4)], whole=True))
    refused = store.admit([an_offer() for _ in range(3)], whole=True)
    assert {v.retry_after_s for v in refused} != {60.0}
    assert store.admit([an_offer()])[0].accepted
    assert store.admit([an_offer()])[0].reason == "rate"
    assert store.size("normal") == 5


def test_a_bulk_is_charged_for_what_is_accepted(store: Store) -> None:
    store.publish_policy("normal", {"rate_limits": [limit(number=3)]}, version=2)
    assert [v.accepted for v in store.admit([an_offer() for _ in range(5)])] == [True] * 3 + [False] * 2


def test_retries_and_later_links_are_never_refused_and_cost_nothing(store: Store) -> None:
    store.publish_policy("normal", {"rate_limits": [limit(number=2)]}, version=2)
    assert store.admit([an_offer(id="one", links=("two",))])[0].accepted
    assert store.admit([an_offer(id="two")])[0].accepted
    job = next(job for job in store.claim("w", ["normal"], 2) if job.id == "one")
    assert store.admit([an_offer(id=job.id, retries=1)])[0].accepted
    assert store.admit([an_offer(id="three", links=("four",))])[0].accepted
    assert store.admit([an_offer()])[0].reason == "rate"
    assert store.admit([an_offer(id="four")])[0].accepted


def test_a_repeated_submit_is_charged_once(store: Store) -> None:
    store.publish_policy("normal", {"rate_limits": [limit(number=2)]}, version=2)
    same = an_offer(idempotency_key="k", idempotency_hash="h")
    assert {store.admit([same])[0].id for _ in range(5)} == {same.id}
    assert store.admit([an_offer()])[0].accepted


def test_waiting_as_told_succeeds_and_the_crowd_is_spread(store: Store) -> None:
    one = limit(number=10, kind="token_bucket", burst=1, window_s=1)
    store.publish_policy("normal", {"rate_limits": [one]}, version=2)
    assert store.admit([an_offer()])[0].accepted
    waits = [store.admit([an_offer()])[0].retry_after_s or 0 for _ in range(10)]
    assert waits[0] <= 0.2
    assert len({round(wait, 1) for wait in waits}) >= 8
    assert all(wait <= 2.2 for wait in waits)


def test_the_state_of_a_limit_goes_by_itself(store: Store) -> None:
    short = [limit("tenant", 100, window_s=0.2, kind=kind) for kind in ("fixed_window", "sliding_window")]
    store.publish_policy("normal", {"max_count": 5, "rate_limits": [*short, limit("tenant", 5)]}, version=2)
    for number in range(5):
        store.admit([an_offer(tenant=f"t{number}")])
    keys = list(store.client.scan_iter(store.root.replace("{", "[{]") + "rate:*", count=1000))
    assert keys
    lives = {key: store.client.pttl(key) for key in keys}
    assert -1 not in lives.values(), "each has its end, or has had it"
    assert all(life <= 410 for key, life in lives.items() if b"window" in key)


def test_a_changed_limit_is_in_force_at_once(store: Store) -> None:
    store.publish_policy("normal", {"rate_limits": [limit(number=1, kind="fixed_window")]}, version=2)
    assert [store.admit([an_offer()])[0].accepted for _ in range(2)] == [True, False]
    store.publish_policy("normal", {"rate_limits": [limit(number=3, kind="fixed_window")]}, version=3)
    assert [store.admit([an_offer()])[0].accepted for _ in range(3)] == [True, True, False]
    store.publish_policy("normal", {}, version=4)
    assert store.admit([an_offer()])[0].accepted


def test_a_queue_without_limits_pays_no_command_for_them(store: Store) -> None:
    def commands() -> int:
        store.client.config_resetstat()
        store.admit([an_offer()])
        stats = store.client.info("commandstats")
        return sum(row["calls"] for name, row in stats.items() if name in ("cmdstat_mget", "cmdstat_set"))

    assert commands() == 0
    store.publish_policy("normal", {"rate_limits": [limit(number=9)]}, version=2)
    assert commands() == 2


def test_delay_and_a_group_are_limited_too(app: Celery, store: Store) -> None:  # noqa: F811
    store.publish_policy("normal", {"rate_limits": [limit("tenant", 3)]}, version=2)
    t = app.tasks["t"]
    with pytest.raises(AdmissionRefused) as caught:
        group([t.si() for _ in range(4)], app=app).apply_async()
    assert caught.value.reason == "rate"
    assert group([t.si() for _ in range(3)], app=app).apply_async()
    with pytest.raises(AdmissionRefused) as caught:
        t.delay()
    assert caught.value.reason == "rate"
    assert caught.value.retry_after > 1
    assert store.size("normal") == 3

"""Is Retry-After read as RFC 9110 writes it, and never as something dangerous?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.client.errors import Refused, Unreachable
from workers.client.retries import Retries, RetryBudget
from workers.client.retry_after import parse_retry_after

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@given(st.integers(min_value=0, max_value=999_999_999))
def test_whole_seconds_are_what_they_say(seconds: int) -> None:
    assert parse_retry_after(f" {seconds} ", now=NOW) == seconds


@given(st.integers(min_value=-10_000_000, max_value=10_000_000))
def test_a_date_is_a_distance_and_a_past_one_is_now(seconds: int) -> None:
    text = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert parse_retry_after(text, now=NOW) == max(0, seconds)


@pytest.mark.parametrize(
    "text", [None, "", "soon", "-5", "1.5", "1e9", "NaN", "٣", "99999999999", "Sun, 99 Foo"]
)
def test_what_says_nothing_is_none(text: str | None) -> None:
    assert parse_retry_after(text, now=NOW) is None


@given(st.text(max_size=60))
def test_no_text_raises_or_gives_a_negative_time(text: str) -> None:
    found = parse_retry_after(text, now=NOW)
    assert found is None or found >= 0


@given(st.floats(min_value=0, max_value=1e6), st.floats(min_value=0, max_value=1, exclude_max=True))
def test_an_invited_return_is_never_early(retry_after_s: float, drawn: float) -> None:
    retries = Retries(draw=lambda: drawn)
    error = Refused(429, {}, retry_after_s=retry_after_s)
    wait_s, _ = retries.wait_before_next(error, uninvited=0, invited=1)
    assert wait_s is not None
    assert retry_after_s <= wait_s <= retry_after_s + 2


@given(st.integers(min_value=1, max_value=60), st.floats(min_value=0, max_value=1, exclude_max=True))
def test_a_backoff_stays_under_its_cap(number: int, drawn: float) -> None:
    retries = Retries(attempts=100, cap_s=7, budget=RetryBudget(most=1000), draw=lambda: drawn)
    wait_s, _ = retries.wait_before_next(Unreachable("x", is_certain=True), uninvited=number, invited=0)
    assert wait_s is not None
    assert 0 <= wait_s <= 7


@given(st.lists(st.sampled_from(["call", "retry"]), max_size=300))
def test_retries_never_pass_the_budgets_share_of_calls(actions: list[str]) -> None:
    budget = RetryBudget(0.1, most=10)
    calls = retried = 0
    for action in actions:
        if action == "call":
            budget.note_call()
            calls += 1
        else:
            retried += budget.take()
    assert retried <= 10 + 0.1 * calls + 1e-6

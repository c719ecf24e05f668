"""Does any secret value survive in what is rendered?"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.privacy.classes import PAYLOAD_CLASSES, RULES
from workers.privacy.redact import (
    REDACTED,
    is_secret_name,
    redact_arguments,
    redact_error,
    redact_result,
    render_arguments,
    scrub_text,
    scrub_value,
)
from workers.quarantine.arguments import describe_arguments

MARK = "s3cr3tvalue"
SECRET_NAMES = st.sampled_from(
    (
        *(
            "password",
            "dbPassword",
            "USER_PASSWORD",
            "passwd",
            "token",
            "accessToken",
            "refresh_token",
            "otp",
        ),
        *(
            "X-Api-Key",
            "apiKey",
            "api_key",
            "secret",
            "client_secret",
            "Authorization",
            "proxy-authorization",
        ),
        *(
            "card",
            "cardNumber",
            "card_no",
            "credit_card",
            "cvv",
            "ssn",
            "iban",
            "cookie",
            "Set-Cookie",
            "pin",
        ),
        *("session_id", "privateKey", "credentials"),
    )
)
PLAIN_NAMES = st.sampled_from(
    ["order_id", "author", "customer", "amount", "monkey", "passenger", "discard", "x"]
)
SECRET_VALUES = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=8).map(MARK.__add__)
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=8)


def holding(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Structures in which secrets stand under a name that gives them away, at any depth."""
    secret = (
        SECRET_VALUES
        | st.lists(SECRET_VALUES, min_size=1, max_size=2)
        | st.dictionaries(PLAIN_NAMES, SECRET_VALUES)
    )
    return (
        st.dictionaries(SECRET_NAMES, secret, max_size=3)
        | st.dictionaries(PLAIN_NAMES, inner, max_size=3)
        | st.lists(inner, max_size=3)
    )


STRUCTURES = st.recursive(PLAIN, holding, max_leaves=12)


@given(
    args=st.lists(STRUCTURES, max_size=3),
    kwargs=st.dictionaries(PLAIN_NAMES | SECRET_NAMES, STRUCTURES, max_size=3),
)
def test_no_value_under_a_secret_name_is_rendered_in_any_class(args: Any, kwargs: Any) -> None:
    kwargs = {name: MARK if is_secret_name(name) else value for name, value in kwargs.items()}
    for payload_class in (*PAYLOAD_CLASSES, None, "made-up"):
        assert MARK not in render_arguments(args, kwargs, payload_class)
        assert MARK not in json.dumps(redact_result({"r": args, "k": kwargs}, payload_class))


@given(
    args=st.lists(SECRET_VALUES, max_size=3), kwargs=st.dictionaries(PLAIN_NAMES, SECRET_VALUES, max_size=3)
)
@pytest.mark.parametrize("payload_class", [name for name in PAYLOAD_CLASSES if name != "public"])
def test_of_every_class_but_public_no_value_is_rendered(payload_class: str, args: Any, kwargs: Any) -> None:
    shown = redact_arguments(args, kwargs, payload_class)
    assert MARK not in json.dumps(shown)
    assert redact_result(args, payload_class) == REDACTED
    if RULES[payload_class].shows == "names":
        assert list(shown["kwargs"]) == list(kwargs) and len(shown["args"]) == len(args)


@given(
    name=SECRET_NAMES,
    value=SECRET_VALUES,
    before=st.text(max_size=10),
    after=st.text(max_size=10),
    form=st.sampled_from(
        [
            "{n}={v}", "{n}: {v}", '{n}="{v}"', "{n}='a b {v}'", '"{n}": "x {v} y"', '{{"{n}": "{v}"}}',
            "{{'{n}': '{v}'}}", "a:{n}={v}",
            'msg="{n}={v}"', "--{n}={v}", "x=b:{n}: {v}", "é{n}={v}", "9_{n}={v}",
            "{n} = {v}", '\\"{n}\\": \\"{v}\\"', "{n}=Bearer {v}", "{n}: Basic {v}==",
        ]
    ),
)  # fmt: skip
def test_no_value_behind_a_secret_name_survives_in_a_text(
    name: str, value: str, before: str, after: str, form: str
) -> None:
    # What stands right before a name would make another name of it.
    text = f"{before} {form.format(n=name, v=value)} {after}"
    assert MARK not in scrub_text(f" {text}" if not before else text) or before.rstrip()[-1:] in "\"'\\"


@pytest.mark.parametrize(
    "text",
    [
        f"redis://user:{MARK}@host:6379/0 is down",
        f"Authorization: Bearer {MARK}abc.def",
        f"got header Bearer {MARK}abcdef",
        f"connect(password='{MARK}', host='x')",
        f'{{"card": {{"number": 1}}, "token": "{MARK}"}}',
        f"retry with token={MARK};other=1",
    ],
)
def test_texts_that_people_log_lose_their_secret(text: str) -> None:
    shown = scrub_text(text)
    assert MARK not in shown and REDACTED in shown


@pytest.mark.parametrize(
    "name",
    ["author", "authority", "discard", "passenger", "keyboard", "compass", "spinning", "order", "keys"],
)
def test_names_that_only_look_alike_are_left(name: str) -> None:
    assert not is_secret_name(name)
    assert scrub_value({name: "shown"}) == {name: "shown"}


@pytest.mark.parametrize("payload_class", ["personal", "secret"])
def test_the_words_of_a_failure_are_withheld_and_its_places_stay(payload_class: str) -> None:
    places = 'Traceback (most recent call last):\n  File "/srv/app.py", line 3, in pay\n'
    trace = f'{places}    raise E("{MARK}")\napp.E: {MARK}\n'
    shown = redact_error({"type": "app.E", "message": MARK, "traceback": trace}, payload_class)
    assert shown == {
        "type": "app.E",
        "message": REDACTED,
        "traceback": '  File "/srv/app.py", line 3, in pay',
    }


def test_an_internal_failure_is_told_without_what_a_name_gives_away() -> None:
    shown = redact_error(
        {"type": "E", "message": f"no such order 7, password={MARK}", "traceback": ""}, "internal"
    )
    assert shown == {"type": "E", "message": "no such order 7, password=redacted", "traceback": ""}


@given(payload=st.binary(max_size=40))
def test_bytes_that_are_no_message_are_withheld(payload: bytes) -> None:
    shown = describe_arguments(payload + MARK.encode(), "internal")
    assert MARK not in shown


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "x:" * 100_000, '"' * 200_000, "token=" * 30_000, "a." * 100_000]
)
def test_a_long_text_is_scrubbed_in_no_time(text: str) -> None:
    began = time.process_time()
    scrub_text(text)
    assert time.process_time() - began < 2

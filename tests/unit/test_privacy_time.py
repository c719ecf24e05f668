"""Is a text looked through in a time that whoever wrote it cannot make long?"""

from __future__ import annotations

import time

import pytest

from workers.privacy.redact import LONGEST, scrub_text

TEXTS = {
    "one word": "x" * 5_000_000,
    "one word under the cut": "x" * LONGEST,
    "quotes": "'" * LONGEST,
    "open values": "a='" * 80_000,
    "escapes": 'a="' + "\\" * LONGEST,
    "many schemes": "a://" * 60_000,
    "a long user": "a://" + "a:" * 100_000,
    "bearers": "bearer " * 30_000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_takes_long(name: str) -> None:
    began = time.process_time()
    scrubbed = scrub_text(TEXTS[name])
    assert time.process_time() - began < 2
    assert len(scrubbed) <= 3 * LONGEST


def test_what_is_cut_is_said() -> None:
    assert scrub_text("x" * (LONGEST + 5)).endswith("5 characters left out")
    assert scrub_text("n" * 100 + "password=abc") == "n" * 100 + "password=redacted"

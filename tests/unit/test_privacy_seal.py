"""Does what is sealed open with its key, for its operation, and nowhere else?"""

from __future__ import annotations

import base64
import os
import pickle
from typing import ClassVar

import pytest
from celery import Celery
from hypothesis import given, settings
from hypothesis import strategies as st

from config.env import WrongSetting, read_environment
from workers import install
from workers.privacy.errors import open_error, seal_error, sealed_of, tell_error
from workers.privacy.seal import ENV, Keyring, MissingKey, NotAuthentic, id_of, key_id_of, parse_keys

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
RING = Keyring([NEW, OLD])


def text_of(*keys: bytes) -> str:
    return ",".join(base64.urlsafe_b64encode(key).decode() for key in keys)


@settings(deadline=None)
@given(plain=st.binary(max_size=200), about=st.text(max_size=20))
def test_what_is_sealed_opens_again_and_shows_nothing(plain: bytes, about: str) -> None:
    about = about.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    stored = RING.seal(plain, about)
    assert RING.open(stored, about) == plain
    assert key_id_of(stored) == id_of(NEW)
    assert len(plain) < 8 or plain not in stored
    assert RING.seal(plain, about) != stored


def test_every_key_opens_and_the_first_seals() -> None:
    assert RING.open(Keyring([OLD]).seal(b"x", "i"), "i") == b"x"
    assert key_id_of(RING.seal(b"x", "i")) == id_of(NEW)


def test_a_missing_key_is_named_and_survives_a_process_border() -> None:
    with pytest.raises(MissingKey) as fault:
        Keyring([OLD]).open(RING.seal(b"x", "i"), "i")
    assert fault.value.key_id == id_of(NEW)
    assert pickle.loads(pickle.dumps(fault.value)).key_id == id_of(NEW)


@pytest.mark.parametrize("change", ["other operation", "changed", "cut"])
def test_what_was_changed_or_moved_does_not_open(change: str) -> None:
    stored = RING.seal(b"pay 10", "i")
    about = "j" if change == "other operation" else "i"
    stored = (
        stored[:-1] + bytes([stored[-1] ^ 1])
        if change == "changed"
        else stored[:-20]
        if change == "cut"
        else stored
    )
    with pytest.raises(NotAuthentic):
        RING.open(stored, about)


def test_without_keys_nothing_is_sealed_and_clear_text_opens() -> None:
    assert Keyring().seal(b"{}", "i") == b"{}"
    assert RING.open(b'{"b": 1}', "i") == b'{"b": 1}'
    assert key_id_of(b"sg1:") is None


@pytest.mark.parametrize(
    "text", ["short", text_of(OLD) + ",x", text_of(OLD, OLD), "!" * 44, text_of(b"x" * 16)]
)
def test_a_wrong_key_is_refused_at_the_start_without_being_shown(text: str, tmp_path: object) -> None:
    with pytest.raises(WrongSetting) as fault:
        read_environment({"SLUICEGATE_PAYLOAD_KEYS": text, "SLUICEGATE_DATA_DIR": str(tmp_path)})
    said = str(fault.value)
    assert said.startswith("SLUICEGATE_PAYLOAD_KEYS: its value holds")
    assert not any(word in said for word in text.split(",") if len(word) > 10)


def test_a_projects_own_application_does_not_start_with_a_wrong_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV, "c2hvcnQ=")
    with pytest.raises(ValueError, match="SLUICEGATE_PAYLOAD_KEYS holds as key 1") as fault:
        install(Celery("wrong-key", set_as_current=False))
    assert "c2hvcnQ=" not in str(fault.value)


def test_keys_are_read_in_their_order() -> None:
    assert parse_keys(f" {text_of(NEW)} , {text_of(OLD)},") == [NEW, OLD]
    assert parse_keys("") == []
    made = base64.urlsafe_b64encode(os.urandom(32)).decode()
    assert len(parse_keys(made)) == 1


class TestErrors:
    """What a failure said, sealed where its class withholds the words."""

    ERROR: ClassVar[dict[str, str]] = {"type": "app.Broken", "message": "no \ud800 é", "traceback": "at\nb"}

    def test_withheld_words_are_sealed_for_one_operation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(ENV, text_of(NEW))
        for payload_class in ("personal", "secret", "a word that nobody knows"):
            sealed = seal_error(self.ERROR, payload_class, "one")
            assert (sealed["type"], sealed["message"], sealed["traceback"]) == ("app.Broken", "", "")
            assert open_error(sealed, "one") == self.ERROR
            with pytest.raises(NotAuthentic):
                open_error(sealed, "two")
        assert tell_error(sealed, "personal", "two") == {
            "type": "app.Broken",
            "message": "redacted",
            "traceback": "",
        }

    def test_words_that_are_told_and_installations_without_keys_stay_as_they_are(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(ENV, text_of(NEW))
        assert seal_error(self.ERROR, "internal", "one") is self.ERROR
        monkeypatch.delenv(ENV)
        assert seal_error(self.ERROR, "personal", "one") is self.ERROR
        assert open_error(self.ERROR, "one") == self.ERROR

    def test_an_error_does_not_open_as_a_payload(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(ENV, text_of(NEW))
        with pytest.raises(NotAuthentic):
            RING.open(sealed_of(seal_error(self.ERROR, "personal", "one")), "one")

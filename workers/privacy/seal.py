"""How are stored payloads kept unreadable for whoever reads Redis, its file, the database or a backup?

AES-256-GCM under the first key of ``SLUICEGATE_PAYLOAD_KEYS``; every key there opens. Stored is ``sg1:``, the
eight hex digits that name the key, a colon, the nonce and the ciphertext. The operation's id is authenticated
with it, so that one job's ciphertext put under another's id does not open.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

ENV: Final = "SLUICEGATE_PAYLOAD_KEYS"
MARK: Final = b"sg1:"
KEY_BYTES, ID_CHARS, NONCE_BYTES = 32, 8, 12
_HEAD: Final = len(MARK) + ID_CHARS + 1
MAKE_ONE: Final = (
    "make one with: python -c 'import base64,os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'"
)


class MissingKey(ValueError):
    """A payload was encrypted with a key that is not configured here; ``key_id`` names it."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        super().__init__(f"its payload needs the key {key_id}, which is not in {ENV} here")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key_id,)


class NotAuthentic(ValueError):
    """A ciphertext was changed, or belongs to another operation."""


class Keyring:
    """The configured keys; the first encrypts. Without keys nothing is encrypted."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self.ids = tuple(id_of(key) for key in keys)
        self._ciphers: dict[str, Any] = {}
        if keys:
            cipher = _load_cipher()
            self._ciphers = {id_of(key): cipher(key) for key in keys}

    def __bool__(self) -> bool:
        return bool(self.ids)

    @property
    def current(self) -> str:
        """Name of the key that encrypts; empty without keys."""
        return self.ids[0] if self.ids else ""

    def seal(self, plain: bytes, about: str) -> bytes:
        """Ciphertext under the first key; without keys what was given."""
        if not self.ids:
            return plain
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._ciphers[self.current].encrypt(nonce, plain, about.encode("utf-8", "surrogateescape"))
        return b"".join((MARK, self.current.encode(), b":", nonce, sealed))

    def open(self, stored: bytes, about: str) -> bytes:
        """What was sealed; what is no ciphertext is given back as it is.

        Raises:
            MissingKey: the key that it names is not configured.
            NotAuthentic: it was changed, or sealed for another operation.
        """
        name = key_id_of(stored)
        if name is None:
            return stored
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise MissingKey(name)
        nonce, sealed = stored[_HEAD : _HEAD + NONCE_BYTES], stored[_HEAD + NONCE_BYTES :]
        try:
            return bytes(cipher.decrypt(nonce, sealed, about.encode("utf-8", "surrogateescape")))
        except Exception as fault:  # the library's own error carries no word of what is wrong
            raise NotAuthentic("the stored payload is not what was sealed for this operation") from fault


def keyring() -> Keyring:
    """The keys of this process's environment, read anew when that changes."""
    return _keyring(os.environ.get(ENV, ""))


def unseal(stored: bytes, about: str) -> bytes:
    """As ``Keyring.open`` with this process's keys, which are not looked for where there is no ciphertext."""
    return stored if key_id_of(stored) is None else keyring().open(stored, about)


def check_keys() -> None:
    """Where an application is made: wrong keys must end its start, not its jobs.

    Raises:
        ValueError: a key is none, or the package that encrypts is missing; says the fix.
    """
    try:
        keyring()
    except ValueError as fault:
        raise ValueError(f"{ENV} {fault}") from None


@lru_cache(maxsize=4)
def _keyring(text: str) -> Keyring:
    return Keyring(parse_keys(text))


def parse_keys(text: str) -> list[bytes]:
    """Keys from a list by comma; no word of an error shows one.

    Raises:
        ValueError: one is no key, or stands there twice; says which and how to make one.
    """
    keys: list[bytes] = []
    for number, word in enumerate((word.strip() for word in text.split(",") if word.strip()), start=1):
        try:
            key = base64.b64decode(word, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise ValueError(f"holds as key {number} what is not 32 bytes in URL-safe base64; {MAKE_ONE}")
        if key in keys:
            raise ValueError(f"holds key {number} twice; leave one out")
        keys.append(key)
    return keys


def id_of(key: bytes) -> str:
    """The public name of a key."""
    return hashlib.sha256(b"sluicegate key id" + key).hexdigest()[:ID_CHARS]


def key_id_of(stored: bytes) -> str | None:
    """Which key opens this; None where it is no ciphertext."""
    if not stored.startswith(MARK) or stored[_HEAD - 1 : _HEAD] != b":":
        return None
    return stored[len(MARK) : _HEAD - 1].decode("ascii", "replace")


def _load_cipher() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as fault:
        raise ValueError(
            "needs the package cryptography; install it with: pip install 'sluicegate[encryption]'"
        ) from fault
    return AESGCM

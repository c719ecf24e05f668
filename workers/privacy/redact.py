"""What may be rendered of arguments, results, errors and log lines? The rule, in one place.

By class (``classes.RULES``), and in every class by name: the value of a keyword argument, a key or a
``name=value`` in a text whose name speaks of a secret is never rendered. Leans towards redacting: a count of
tokens that is hidden costs a click, a token that is shown costs more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .classes import handling_of

REDACTED: Final = "redacted"
DEEPEST: Final = 40  # levels; below them nothing is rendered
LONGEST: Final = 262_144  # characters of one text that are looked through; what is beyond is not rendered

#: Words of a name, and names written together, that speak of a secret.
_WORDS: Final = frozenset(
    (
        *("password", "passwd", "passwort", "pwd", "pass", "passphrase", "passcode", "pin", "otp", "totp"),
        *("secret", "secrets", "token", "tokens", "jwt", "auth", "authorization", "bearer", "credential"),
        *(
            "credentials",
            "cookie",
            "cookies",
            "session",
            "sessionid",
            "csrf",
            "apikey",
            "pem",
            "privkey",
            "salt",
        ),
        *("card", "cards", "pan", "cvv", "cvc", "cvn", "iban", "ssn", "sin", "nin", "passport", "signature"),
    )
)
_TOGETHER: Final = (
    *("password", "passwd", "passphrase", "secret", "token", "authorization", "credential", "apikey"),
    *("accesskey", "privatekey", "signingkey", "encryptionkey", "sessionkey", "creditcard", "cardnumber"),
    *("cardno", "accountnumber", "socialsecurity", "securitycode"),
)
_SPLIT: Final = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

#: A name before ``=``, ``:`` or ``=>`` in a text, and the value behind it, which ends where its quote does.
#: Possessive, so that a long text costs one look at each of its characters.
_NAME: Final = re.compile(
    r"""(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z0-9_.-]++)\\?["']?\s{0,3}(?:=>|[=:])\s{0,3}(?:[bru](?=["']))?"""
)
_VALUE: Final = re.compile(
    r"""\\"(?:[^"\\]|\\[^"])*\\"|\\'(?:[^'\\]|\\[^'])*\\'|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?
      |(?:(?:bearer|basic|digest|token)\s+)?[^\s,;&"'<>)\]}]+""",
    re.VERBOSE | re.IGNORECASE,
)
_SCHEME: Final = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_USERINFO: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/@:'\"]{0,300}:[^\s/@'\"]{0,300}@"
)
_FRAME: Final = re.compile(r'^\s*File "[^"\n]*", line \d+(?:, in [\w.<>]+)?$')


def is_secret_name(name: str) -> bool:
    """Whether a name speaks of a secret: ``dbPassword``, ``X-Api-Key``, ``card_no``; not ``author``."""
    parts = [part.lower() for part in _SPLIT.split(name) if part]
    if _WORDS.intersection(parts):
        return True
    together = "".join(parts)
    return any(word in together for word in _TOGETHER)


def scrub_text(text: str) -> str:
    """A text without the values that a name, a scheme or a URL's user part gives away.

    A worker calls it on whatever a job returned or raised, so its time is bounded, as is the text.
    """
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} ... {len(text) - LONGEST} characters left out"
    text = _SCHEME.sub(rf"\1 {REDACTED}", _USERINFO.sub(rf"\g<scheme>{REDACTED}@", text))
    parts: list[str] = []
    kept_to = at = 0
    while found := _NAME.search(text, at):
        at = found.end()
        if is_secret_name(found["name"]):
            value = _VALUE.match(text, at)
            if value is not None:
                parts += (text[kept_to:at], REDACTED)
                kept_to = at = value.end()
    return "".join((*parts, text[kept_to:]))


def scrub_value(value: Any, *, level: int = 0) -> Any:
    """A value of JSON with what its names give away replaced, however deep."""
    if level > DEEPEST:
        return REDACTED
    if isinstance(value, Mapping):
        return {
            scrub_text(str(name)): REDACTED
            if is_secret_name(str(name))
            else scrub_value(item, level=level + 1)
            for name, item in value.items()
        }
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [scrub_value(item, level=level + 1) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return scrub_text(str(value))


def redact_arguments(args: Any, kwargs: Any, payload_class: str | None) -> dict[str, Any]:
    """``{"args", "kwargs"}`` as they may be rendered unasked."""
    shows = handling_of(payload_class).shows
    if shows == "values":
        return {"args": scrub_value(args), "kwargs": scrub_value(kwargs)}
    if shows == "names" and isinstance(args, Sequence) and isinstance(kwargs, Mapping):
        # Names of parameters are words of a program; one that a submitter made up is cut short.
        return {"args": [REDACTED] * len(args), "kwargs": {_name(name): REDACTED for name in kwargs}}
    return {"args": REDACTED, "kwargs": REDACTED}


def redact_result(result: Any, payload_class: str | None) -> Any:
    return scrub_value(result) if handling_of(payload_class).shows == "values" else REDACTED


def redact_error(error: Mapping[str, str] | None, payload_class: str | None) -> dict[str, str] | None:
    """Type, message and traceback of a failure as they may be rendered unasked.

    Where the text is withheld the places of the traceback stay: they are the program's, not the payload's.
    """
    if not error:
        return None
    if handling_of(payload_class).error_text:
        return {name: scrub_text(str(value)) for name, value in error.items()}
    traceback = str(error.get("traceback") or "")
    return {
        "type": str(error.get("type") or ""),
        "message": REDACTED if error.get("message") else "",
        "traceback": "\n".join(line for line in traceback.splitlines() if _FRAME.match(line)),
    }


def render_arguments(args: Any, kwargs: Any, payload_class: str | None) -> str:
    """The redacted arguments as one line of JSON."""
    return json.dumps(redact_arguments(args, kwargs, payload_class), ensure_ascii=False, default=str)


def _name(name: Any) -> str:
    text = str(name)
    return text if text.isidentifier() and len(text) <= 60 else REDACTED

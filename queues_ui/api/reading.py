"""What does a body say? Strict JSON, of bounded depth, or a problem that says what is wrong.

Its Content-Type is not looked at: curl calls a body a form unless told otherwise. A page of another site may
send such a request without asking, but no key along with it, and what comes with a session needs its token.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest
from ninja.parser import Parser

from .problems import Problem

NO_REASON: Final = "no reason given"
#: How pydantic calls the two forms of a moment (schemas.Moment).
TYPES: Final = ("int", "constrained-str", "str")
MOMENT_WANTED: Final = "It must be whole milliseconds since the epoch, or a text in ISO 8601"
OBJECT_WANTED: Final = ("model_attributes_type", "model_type", "dict_type")  # pydantic speaks of dictionaries
DEEPEST: Final = 100  # levels; deeper is a mistake or an attack on whoever reads it next


class StrictParser(Parser):
    def parse_body(self, request: HttpRequest) -> Any:
        coding = request.headers.get("Content-Encoding", "").strip()
        if coding.lower() not in ("", "identity"):
            raise Problem(
                415,
                "encoding",
                f"A body comes as it is, not in the content coding {coding[:40]!r}.",
                field="Content-Encoding",
                headers={"Accept-Encoding": "identity"},
            )
        return parse_json(request.body)


def parse_json(raw: bytes) -> Any:
    try:
        value = json.loads(
            raw, parse_constant=_refuse_constant, parse_float=_read_float, object_pairs_hook=_take_once
        )
    except RecursionError:
        raise Problem(
            400, "malformed", f"The body is nested deeper than {DEEPEST} levels.", field="body"
        ) from None
    except UnicodeDecodeError:
        raise Problem(400, "malformed", "The body is not UTF-8.", field="body") from None
    except ValueError as fault:
        raise Problem(400, "malformed", f"The body is not JSON: {fault}"[:300], field="body") from None
    if _is_deeper(value, DEEPEST):
        raise Problem(400, "malformed", f"The body is nested deeper than {DEEPEST} levels.", field="body")
    if b"\\ud" in raw or b"\\uD" in raw:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Problem(
                400, "malformed", "The body holds half of a surrogate pair.", field="body"
            ) from None
    return value


def field_of(loc: Sequence[Any]) -> str:
    """A field's name out of pydantic's path to it, in which alternatives of form and type stand too."""
    return ".".join(str(part) for part in loc if "[" not in str(part) and part not in TYPES)[:200]


def say_fault(error: Mapping[str, Any]) -> str:
    """What is wrong with it, in the words of JSON."""
    if error["type"] in OBJECT_WANTED:
        return "It must be a JSON object"
    return MOMENT_WANTED if error["loc"] and error["loc"][-1] in TYPES else str(error["msg"])


def take_reason_and_version(changes: dict[str, Any]) -> tuple[str, int | None]:
    """Why something is changed, where that is given, and the version that it is made on; both taken out."""
    reason, version = changes.pop("reason", ""), changes.pop("version", None)
    if not isinstance(reason, str):
        raise Problem(422, "invalid", "reason must be a text.", field="reason")
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise Problem(422, "invalid", "version must be a whole number.", field="version")
    return tell_reason(reason), version


def refuse_header(request: HttpRequest, name: str, why: str) -> None:
    """For a header that asks for what a route cannot do: to pass it over would be to promise it."""
    if name in request.headers:
        raise Problem(400, "invalid", f"{name} is not taken here: {why}.", field=name)


def tell_reason(reason: str) -> str:
    """What the journal says: that a program gave none is not the same as an entry that lost it."""
    return reason if reason.strip() else NO_REASON


def _take_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, each of whose names stands once: of two, one would be lost without a word."""
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        shown = twice[:200].encode("utf-8", "replace").decode()
        raise Problem(400, "malformed", f"{shown!r} stands twice in one object: give it once.", field=shown)
    return value


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(part for part in item.values() if isinstance(part, (dict, list)))
            elif isinstance(item, list):
                deeper.extend(part for part in item if isinstance(part, (dict, list)))
        if not deeper:
            return False
        level = deeper
    return True

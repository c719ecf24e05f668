"""Does the description say that a refusal is a problem document, and when to come back?"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from .problems import MEDIA_TYPE

ANYWHERE: Final = (400, 401, 403, 404, 405, 413, 422, 429, 503)
WITH_A_TIME: Final = ("429", "503")
COME_BACK: Final = {
    "Retry-After": {"description": "Whole seconds, at least 1.", "schema": {"type": "integer", "minimum": 1}},
    "RateLimit": {"description": "What is left of the quota that refused.", "schema": {"type": "string"}},
    "RateLimit-Policy": {"description": "The quota that refused.", "schema": {"type": "string"}},
}
SENT_PLAIN: Final = {
    "Accept-Encoding": {"description": "identity: no content coding.", "schema": {"type": "string"}}
}
DOCUMENT: Final = {"$ref": "#/components/schemas/ProblemDocument"}


def describe_refusals(schema: dict[str, Any]) -> dict[str, Any]:
    """Every operation with every refusal that it can meet, in the form in which it comes."""
    for operations in schema["paths"].values():
        for operation in operations.values():
            responses = {str(code): told for code, told in operation["responses"].items()}
            of_bodies = (415,) if "requestBody" in operation else ()
            for number in (*ANYWHERE, *of_bodies):
                responses.setdefault(str(number), {"description": HTTPStatus(number).phrase})
            for code, told in responses.items():
                if int(code) >= 400:
                    told["content"] = {MEDIA_TYPE: {"schema": DOCUMENT}}
                if code in WITH_A_TIME:
                    told["headers"] = COME_BACK
                if code == "415":
                    told["headers"] = SENT_PLAIN
            operation["responses"] = dict(sorted(responses.items()))
    return schema

"""In which form do requests and answers come? What OpenAPI says is made from this."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Final, Literal

from ninja import Body, Schema
from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

Name = Annotated[str, Field(min_length=1, max_length=200)]
Word = Annotated[str, Field(min_length=1, max_length=100)]
Key = Annotated[str, Field(min_length=1, max_length=200)]
Id = Annotated[str, Field(min_length=1, max_length=255)]
Reason = Annotated[str, Field(max_length=2000)]
Seconds = Annotated[float, Field(ge=0, le=366 * 86_400, allow_inf_nan=False)]
BODY = Body(...)  # one marker for all routes whose body is no schema of its own
Moment = int | Annotated[str, Field(min_length=1, max_length=40)]


#: Unknown fields that a refusal looks at: a body of a hundred thousand would cost seconds to tell of each.
MOST_UNKNOWN: Final = 10


class Strict(Schema):
    """A field that is not known is an error: a misspelt deadline must not become no deadline."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        few = islice((name for name in value if name not in cls.model_fields), MOST_UNKNOWN)
        # What the fields are is said once.
        faults = [
            InitErrorDetails(type=cls._fault_with(place == 0), loc=(name,), input=None)
            for place, name in enumerate(few)
        ]
        if faults:
            raise ValidationError.from_exception_data(cls.__name__, faults)
        return value

    @classmethod
    def _fault_with(cls, fields: bool) -> PydanticCustomError:
        known = f"; the fields are {', '.join(cls.model_fields)}" if fields else ""
        return PydanticCustomError("unknown_field", "There is no such field{known}", {"known": known})


class Job(Strict):
    task: Name
    args: list[Any] = Field(default_factory=list)
    kwargs: dict[str, Any] = Field(default_factory=dict)
    queue: Name | None = None
    countdown_s: Seconds | None = None
    deadline_s: Annotated[float, Field(gt=0, le=366 * 86_400, allow_inf_nan=False)] | None = None
    ordering_key: Key | None = None
    coalesce_key: Key | None = None
    source_sequence: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = None
    cost_ms: Annotated[int, Field(ge=1, le=7 * 86_400_000)] | None = None
    replay_until: Moment | None = None
    replay_of: Name | None = None
    tags: list[Word] = Field(default_factory=list, max_length=20)
    ticket: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    payload_class: Literal["public", "internal", "personal", "secret"] | None = None


class Jobs(Strict):
    jobs: Annotated[list[Any], Field(min_length=1, max_length=1000)]
    whole: bool = False


def _form_of(value: Any) -> str | None:
    return "[list]" if isinstance(value, list) else "[object]" if isinstance(value, (dict, Jobs)) else None


#: Which of the two is known before a fault is told, so that it is told of the one that was meant.
ManyJobs = Annotated[
    Annotated[list[Any], Tag("[list]")] | Annotated[Jobs, Tag("[object]")],
    Discriminator(
        _form_of,
        custom_error_type="jobs",
        custom_error_message='Send a list of jobs, or {"jobs": [...]}',
    ),
]


class Accepted(Schema):
    operation_id: str
    status: str
    queue: str
    accepted_at_ms: int | None
    durability: str
    durability_note: str | None = None
    status_url: str
    phase: str | None = None
    reason: str | None = None
    degraded_from: dict[str, str] | None = None


class RefusingMode(Schema):
    mode: str
    scope: Literal["installation", "queue"]
    by: Literal["operator", "gate"]
    since_at_ms: int
    until_at_ms: int | None
    until: str | None


class ProblemDocument(Schema):
    type: str
    title: str
    status: int
    reason: str
    detail: str
    field: str | None = None
    queue: str | None = None
    retry_after_s: int | None = None
    figures: dict[str, float] | None = None
    unit: Literal["jobs", "bytes", "ms", "tickets"] | None = None
    mode: RefusingMode | None = None


class ModeChange(Strict):
    mode: str
    queue: Name | None = None
    until: Moment | None = None
    reason: Reason = ""
    pinned: bool = False


class Choice(Strict):
    """Either ids or a filter."""

    ids: Annotated[list[Id], Field(fail_fast=True)] | None = None
    filter: dict[str, Any] | None = None
    reason: Reason = ""


class ReplayChoice(Choice):
    rate_per_s: float = 20.0
    override_expired: bool = False


class DeletionOrder(Strict):
    """A tag, a tenant, or a tag of one tenant."""

    tag: Word | None = None
    tenant: Name | None = None
    reason: Reason


class WhyNeeded(Strict):
    reason: Reason


class Why(Strict):
    reason: Reason = ""


class BatchChange(Strict):
    state: str
    reason: Reason = ""


class Note(Strict):
    note: Reason = ""


class Snooze(Strict):
    until: Moment | None = None
    for_s: Annotated[float, Field(gt=0, le=7 * 86_400)] | None = None
    note: Reason = ""


Words = Annotated[list[str], Field(max_length=1000, fail_fast=True)]


class NewKey(Strict):
    tenant: Name = "default"
    scopes: Words
    tasks: Words = Field(default_factory=list)
    queues: Words = Field(default_factory=list)
    label: Annotated[str, Field(max_length=200)] = ""

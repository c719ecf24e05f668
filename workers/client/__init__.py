"""How does a program submit work at the HTTP door and behave well when it is refused?

from sluicegate.client import Client
with Client("https://gate.example", api_key="...") as door:
    accepted = door.submit("images.thumbnail", kwargs={"sample": {}}, queue="bulk", patience_s=30)
    job = door.wait(accepted.operation_id)
"""

from .answers import Accepted, BulkVerdict, Job
from .door import Client
from .errors import (
    AlreadySettled,
    DoorError,
    Duplicate,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    ProblemError,
    Refused,
    TooLarge,
    Unavailable,
    Unknown,
    Unreachable,
    WaitTimeout,
)
from .retries import Retries, RetryBudget

__all__ = [
    "Accepted",
    "AlreadySettled",
    "BulkVerdict",
    "Client",
    "DoorError",
    "Duplicate",
    "InvalidRequest",
    "Job",
    "NotAllowed",
    "NotAuthenticated",
    "ProblemError",
    "Refused",
    "Retries",
    "RetryBudget",
    "TooLarge",
    "Unavailable",
    "Unknown",
    "Unreachable",
    "WaitTimeout",
]

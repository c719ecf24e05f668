"""Which durable facts does the engine keep? One file a subject."""

from .alert import Alert, AlertDelivery, AlertRule
from .api_key import ApiKey
from .deletion import Deletion
from .downstream_version import DownstreamVersion
from .journal import JournalEntry
from .policy_version import PolicyVersion
from .quarantined_job import QuarantinedJob
from .replay_batch import ReplayBatch, ReplayItem
from .sample import Sample
from .suspension import Suspension
from .transition import Transition

__all__ = [
    "Alert",
    "AlertDelivery",
    "AlertRule",
    "ApiKey",
    "Deletion",
    "DownstreamVersion",
    "JournalEntry",
    "PolicyVersion",
    "QuarantinedJob",
    "ReplayBatch",
    "ReplayItem",
    "Sample",
    "Suspension",
    "Transition",
]

"""Backpressure for Celery: a gate in front of its queues on Redis.

import sluicegate
app = Celery(broker="sluicegate://localhost:6379/0")
sluicegate.install(app)
"""

from .exceptions import AdmissionRefused, DownstreamDropped, HookMissing, OfferError, StoreUnavailable
from .transport import install

__all__ = [
    "AdmissionRefused",
    "DownstreamDropped",
    "HookMissing",
    "OfferError",
    "StoreUnavailable",
    "install",
]

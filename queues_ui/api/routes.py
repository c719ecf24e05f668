"""Which routes does the API have?"""

from . import (
    alerts,
    deletions,
    downstreams,
    jobs,
    journal,
    keys,
    modes,
    policies,
    quarantine,
    queues,
    tenants,
    tickets,
)
from .root import api

MODULES = (
    jobs,
    queues,
    modes,
    policies,
    downstreams,
    quarantine,
    alerts,
    journal,
    keys,
    tenants,
    tickets,
    deletions,
)
for module in MODULES:
    api.add_router("", module.router)

__all__ = ["api"]

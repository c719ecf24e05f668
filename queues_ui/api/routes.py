"""Which routes does the API have?"""

from . import alerts, deletions, jobs, journal, keys, modes, policies, quarantine, queues, tenants
from .root import api

for module in (jobs, queues, modes, policies, quarantine, alerts, journal, keys, tenants, deletions):
    api.add_router("", module.router)

__all__ = ["api"]

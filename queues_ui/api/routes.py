"""Which routes does the API have?"""

from . import alerts, jobs, journal, keys, modes, policies, quarantine, queues, tenants
from .root import api

for module in (jobs, queues, modes, policies, quarantine, alerts, journal, keys, tenants):
    api.add_router("", module.router)

__all__ = ["api"]

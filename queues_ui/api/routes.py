"""Which routes does the API have?"""

from . import alerts, jobs, journal, keys, modes, policies, quarantine, queues
from .root import api

for module in (jobs, queues, modes, policies, quarantine, alerts, journal, keys):
    api.add_router("", module.router)

__all__ = ["api"]

"""Which job types does an installation bring along?

Importing this package registers them with the current Celery app. The drills, which write files and
kill processes on purpose, are registered only where ``SLUICEGATE_DRILLS=1`` asks for them.
"""

from . import enrichment, thumbnails, webhooks
from .places import are_drills_on

__all__ = ["enrichment", "thumbnails", "webhooks"]

if are_drills_on():
    from . import drills  # noqa: F401

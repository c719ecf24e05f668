"""Which Celery app and which gate does this process speak for?"""

from __future__ import annotations

from functools import lru_cache

from celery import Celery
from django.conf import settings
from django.utils.module_loading import import_string

from workers.actions.gate import open_gate

__all__ = ["celery_app", "known_tasks", "open_gate"]


@lru_cache(maxsize=1)
def celery_app() -> Celery:
    """Named in the settings, so that nothing here imports what wires it; its tasks are loaded once."""
    app: Celery = import_string(settings.SLUICEGATE_CELERY_APP)
    app.loader.import_default_modules()
    app.finalize(auto=True)
    return app


def known_tasks() -> list[str]:
    """Tasks that may be submitted: those of modules, not Celery's own machinery."""
    return sorted(name for name in celery_app().tasks if not name.startswith("celery."))

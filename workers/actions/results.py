"""Where are results kept? In the backend of the Celery application that the settings name."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def _app() -> Any:
    return import_string(settings.SLUICEGATE_CELERY_APP)


def forget_result(op_id: str) -> bool:
    """Deletes a stored result; whether there was one."""
    backend = _app().backend
    key = backend.get_key_for_task(op_id)
    if backend.get(key) is None:
        return False
    backend.delete(key)
    return True

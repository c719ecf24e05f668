"""Do a worker's own log lines keep what their job's class keeps?

Celery logs results, exceptions and, of a message that it cannot take, the whole body. A filter on its loggers
lets pass what the class of the running job allows (``privacy.redact``).
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any, Final

from celery import current_task

from ..privacy.classes import PUBLIC, SECRET, handling_of
from ..privacy.redact import REDACTED, redact_error, redact_result, scrub_text

TRACE: Final = "celery.app.trace"
CONSUMER: Final = "celery.worker.consumer.consumer"


class RunningJob(logging.Filter):
    """For what is logged of a job while it runs: its arguments, its result, its failure."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = record.args
        if not isinstance(context, Mapping) or "id" not in context:
            return True
        payload_class = _class_of(str(context["id"]))
        told: dict[str, Any] = dict(context)
        for name in ("args", "kwargs"):
            if name in told:
                told[name] = scrub_text(str(told[name])) if payload_class == PUBLIC else REDACTED
        if "return_value" in told:
            told["return_value"] = redact_result(str(told["return_value"]), payload_class)
        trace = str(told.get("traceback") or "")
        if record.exc_info and not isinstance(record.exc_info, bool) and record.exc_info[0] is not None:
            trace = "".join(traceback.format_exception(*record.exc_info))
        error = redact_error({"message": str(told.get("exc", "")), "traceback": trace}, payload_class) or {}
        if "exc" in told:
            told["exc"] = error["message"]
        if "traceback" in told:
            told["traceback"] = error["traceback"]
        if record.exc_info:
            record.exc_info, record.exc_text = None, error["traceback"].rstrip("\n")
        record.args = told
        if hasattr(record, "data"):
            record.data = told  # what Celery hands to log handlers of one's own
        return True


class Unreadable(logging.Filter):
    """For messages that no task could be made of: Celery would log them whole."""

    def filter(self, record: logging.LogRecord) -> bool:
        if "body" in str(record.msg) and isinstance(record.args, tuple):
            cause = record.args[0] if record.args else ""
            # A KeyError names the task that is not known; another's words may quote the body.
            first = str(cause)[:200] if isinstance(cause, KeyError) else type(cause).__name__
            record.msg = "A message cannot be taken (%s); it goes to quarantine or is tried again."
            record.args = (first,)
            record.exc_info = record.exc_text = None
        return True


def keep_logs_quiet() -> None:
    """Puts the filters on; once is enough, again does nothing."""
    for name, kind in ((TRACE, RunningJob), (CONSUMER, Unreadable)):
        logger = logging.getLogger(name)
        if not any(isinstance(known, kind) for known in logger.filters):
            logger.addFilter(kind())


def _class_of(op_id: str) -> str:
    """The class of the job that runs here; the strictest where another job is spoken of."""
    request = getattr(current_task, "request", None)
    if request is None or getattr(request, "id", None) != op_id:
        return SECRET
    found = getattr(request, "payload_class", None)
    return found if found and handling_of(found) else SECRET

"""What came of a delivery? Celery's request, which notes it where the ack will find it."""

from __future__ import annotations

import functools
import logging
import traceback
import weakref
from typing import Any

from billiard.einfo import ExceptionInfo
from celery.exceptions import (
    Ignore,
    Reject,
    Retry,
    TaskRevokedError,
    Terminated,
    TimeLimitExceeded,
    WorkerLostError,
)
from celery.utils.serialization import UnpickleableExceptionWrapper
from celery.worker.request import Request
from celery.worker.state import task_ready

from ..exceptions import DownstreamDropped
from ..privacy.redact import redact_error, redact_result
from .holdings import MAX_MESSAGE, MAX_RESULT, Held, Holdings, cut_middle, note_error
from .registry import held_by_tag

logger = logging.getLogger("sluicegate.transport")


def _text(value: Any) -> str:
    """A person's reading of a value whose own ``__str__`` may raise."""
    try:
        return str(value)
    except Exception as exc:  # noqa: BLE001 - a task's own exception may raise anything
        return f"(unprintable {type(value).__name__}: {type(exc).__name__})"


def _kind(exc: BaseException) -> str:
    """The name of a failure's own class; what could not be pickled comes in a wrapper."""
    return exc.exc_cls_name if isinstance(exc, UnpickleableExceptionWrapper) else type(exc).__name__


def _aimed_at_the_process(exc: BaseException) -> BaseException | None:
    """What a job raised to end more than itself, or what Celery takes for that."""
    if isinstance(exc, WorkerLostError):
        # The threads and solo pools call it a lost worker; no process was.
        exc = exc.__context__ or exc
    return exc if isinstance(exc, MemoryError) or not isinstance(exc, Exception) else None


def _as_failure(exc: BaseException) -> ExceptionInfo:
    """The same as a failure that ends neither this process nor the one that waits for the result."""
    try:
        raise RuntimeError(f"the job raised {type(exc).__name__}({_text(exc)[:200]})")
    except RuntimeError:
        return ExceptionInfo()


def _is_drop(exc: Any) -> bool:
    """Whether a failure says that the downstream had no room or no answer for the call."""
    if isinstance(exc, (DownstreamDropped, TimeoutError, TimeLimitExceeded)):
        return True
    # A prefork child's exceptions may arrive as rebuilt classes of the same name.
    names = {cls.__name__ for cls in type(exc).__mro__} | {_kind(exc)}
    return DownstreamDropped.__name__ in names


#: What Celery raises, and dies of, over a message that it cannot make sense of (a time limit of "soon").
UNFIT = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


def hold_unfit(held: Held, exc: BaseException) -> None:
    """Notes that a message is not one: a worker that ended over it would give it to the next."""
    held.outcome, held.quarantine_reason = "failed", "undecodable"
    note_error(held, type(exc).__name__, f"the worker cannot make sense of the message: {_text(exc)}")


def _holding_what_is_unfit(execute: Any) -> Any:
    @functools.wraps(execute)
    def execute_using_pool(self: GateRequest, pool: Any, **kw: Any) -> Any:
        try:
            result = execute(self, pool, **kw)
        except UNFIT as exc:
            if self._held is None:
                raise
            self._give_up(exc)
            raise TaskRevokedError(self.id) from exc  # Celery's word for: its slot is free again
        future = getattr(result, "f", None)
        if self._held is not None and (future is not None or hasattr(result, "_write_to")):
            self._held.run = weakref.ref(result if future is None else future)
        if future is not None and self._held is not None:
            # The threads pool looks at no error of a run: the job would stay running for ever.
            future.add_done_callback(self._look_at_the_end)
        return result

    return execute_using_pool


class GateRequest(Request):
    """An ack carries no outcome: Celery acks success, failure and retry alike. So it is noted before."""

    _held: Held | None = None
    _holdings: Holdings | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # Celery makes a subclass a task and defines on_success in it without calling ours; wrap it there.
        super().__init_subclass__(**kwargs)
        execute = cls.__dict__.get("execute_using_pool")
        if execute is not None:
            cls.execute_using_pool = _holding_what_is_unfit(execute)
        inner = cls.__dict__.get("on_success")
        if inner is None:
            return

        @functools.wraps(inner)
        def on_success(self: GateRequest, failed__retval__runtime: Any, **kw: Any) -> Any:
            if isinstance(failed__retval__runtime, ExceptionInfo):
                # The threads and solo pools hand on like this what is no Exception. Celery's own handler
                # cannot take it apart; the job would stay running, and its slot taken, for ever.
                return self.on_failure(failed__retval__runtime, return_ok=True)
            failed, retval, runtime = failed__retval__runtime
            held = self._held
            if held is not None:
                if runtime is not None:
                    held.run_ms = int(runtime * 1000)
                if not failed:
                    held.outcome = "succeeded"
                    shown = redact_result(_text(retval)[:MAX_RESULT], held.payload_class)
                    held.result_repr = shown
                    failed__retval__runtime = (failed, shown, runtime)  # what an event would tell
            try:
                return inner(self, failed__retval__runtime, **kw)
            except UNFIT as exc:
                logger.warning("the end of %s could not be booked: %s", self.id, exc)
                if held is not None and self._holdings is not None and self._holdings.find(held.tag):
                    self._holdings.settle(held, "failed")

        cls.on_success = on_success

    def __init__(self, message: Any, *args: Any, **kwargs: Any) -> None:
        found = held_by_tag(message.delivery_tag)
        if found is not None:
            self._held, self._holdings = found
            self._held.taken = True
        super().__init__(message, *args, **kwargs)

    def _look_at_the_end(self, future: Any) -> None:
        exc = None if future.cancelled() else future.exception()
        if exc is not None:
            self._give_up(exc)

    def _give_up(self, exc: BaseException) -> None:
        """Ends a job that Celery could not begin, or whose end it could not tell."""
        held, holdings = self._held, self._holdings
        if held is None or holdings is None or holdings.find(held.tag) is None:
            return
        if held.started_at_ms is None:
            hold_unfit(held, exc)
        else:
            told = "".join(traceback.format_exception(exc))
            held.outcome = "failed"
            note_error(held, _kind(exc), _text(exc), told)
        self.reject(requeue=False)
        task_ready(self)
        try:
            self.task.backend.mark_as_failure(self.id, exc, None)
        except Exception as fault:  # noqa: BLE001 - it is in quarantine; only who waits is not told
            logger.warning("that %s failed could not be told: %s", self.id, fault)

    def send_event(self, type: str, **fields: Any) -> None:
        if self._held is not None and "exception" in fields:
            message, trace = _text(fields["exception"]), _text(fields.get("traceback"))
            told = {"message": message[:MAX_MESSAGE], "traceback": cut_middle(trace)}
            shown = redact_error(told, self._held.payload_class) or {}
            fields |= {"exception": shown["message"], "traceback": shown["traceback"]}
        super().send_event(type, **fields)

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        if self._held is not None and self._holdings is not None:
            self._holdings.started(self._held, time_accepted)
        try:
            super().on_accepted(pid, time_accepted)
        except UNFIT as exc:
            # Celery's own books, by a name that is no name; in the threads pool nobody would hear of it.
            logger.warning("the start of %s could not be booked: %s", self.id, exc)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        held = self._held
        if held is not None and not soft:
            held.outcome, held.quarantine_reason = "failed", "time_limit"
            held.downstream = "dropped"
            note_error(held, "TimeLimitExceeded", f"outlived its hard time limit of {timeout} s")
        super().on_timeout(soft, timeout)

    def on_retry(self, exc_info: Any) -> None:
        held = self._held
        if held is not None:
            held.outcome = "retry"
            cause = getattr(exc_info.exception, "exc", None) or exc_info.exception
            note_error(held, _kind(cause), _text(cause), _text(exc_info.traceback))
            held.downstream = "dropped" if _is_drop(cause) else "ignore"
        super().on_retry(exc_info)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> None:
        held = self._held
        exc = getattr(exc_info.exception, "exc", None) or exc_info.exception
        finally_lost = False
        if held is not None and held.outcome is None:
            aimed = None if self._already_cancelled or self._already_revoked else _aimed_at_the_process(exc)
            if aimed is not None:
                held.outcome = "failed"
                note_error(held, type(aimed).__name__, _text(aimed), _text(exc_info.traceback))
                exc_info = _as_failure(aimed)
                # The child has told the result of a MemoryError already; of the others nobody has.
                return_ok = isinstance(aimed, MemoryError)
            elif isinstance(exc, Retry):
                pass  # on_retry notes it
            elif isinstance(exc, Ignore):
                held.outcome = "ignored"
            elif isinstance(exc, Reject):
                self._note_reject(held, exc, exc_info)
            elif isinstance(exc, Terminated):
                held.outcome = "cancelled"
            elif isinstance(exc, WorkerLostError):
                held.outcome = "lost"
                finally_lost = held.is_last_delivery
                note_error(held, "WorkerLost", _text(exc))
            else:
                held.outcome = "failed"
                held.downstream = "dropped" if _is_drop(exc) else "ignore"
                if isinstance(exc, TimeLimitExceeded):
                    held.quarantine_reason = "time_limit"
                note_error(held, _kind(exc), _text(exc), _text(exc_info.traceback))
        super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)
        if finally_lost and held is not None and held.outcome == "lost":
            # Redelivery ends here: who waits for the result must be told.
            self.task.backend.mark_as_failure(
                self.id, exc, request=self._context, store_result=self.store_errors
            )

    def _note_reject(self, held: Held, exc: Reject, exc_info: Any) -> None:
        if exc.requeue:
            held.outcome = "requeued"
            return
        # Task.retry() turns a publish that failed into Reject; its cause says more than "rejected".
        cause = exc.__cause__ or exc.__context__ or exc.reason or exc
        held.outcome, held.quarantine_reason = "failed", "rejected"
        note_error(held, _kind(cause), _text(cause), _text(exc_info.traceback))

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> None:
        if self._held is not None:
            self._held.outcome = "expired" if expired else "cancelled"
        super()._announce_revoked(reason, terminated, signum, expired)

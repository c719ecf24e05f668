"""How is one job offered, by HTTP or by Celery, and what was the answer?"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from celery import Celery

from ..client import Client, DoorError, ProblemError, Refused, Retries, Unavailable, Unreachable
from ..exceptions import AdmissionRefused, StoreUnavailable
from .arrivals import Arrival


@dataclass(frozen=True, slots=True)
class Answer:
    """``failed`` is every other end of an offer: no answer, no right, a body that does not fit."""

    kind: Literal["accepted", "refused", "failed"]
    reason: str | None = None
    retry_after_s: float | None = None


class Door(Protocol):
    def offer(self, arrival: Arrival, offer_id: str) -> Answer:
        """``offer_id`` is the same each time that one job is offered."""

    def close(self) -> None: ...


def new_offer_id() -> str:
    return str(uuid.uuid4())


class CeleryDoor:
    """The producer's own way: `send_task` through the gate."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def offer(self, arrival: Arrival, offer_id: str) -> Answer:
        facts: dict[str, Any] = {}
        if arrival.cost_ms is not None:
            facts["cost_ms"] = arrival.cost_ms
        if arrival.deadline_s is not None:
            facts["deadline_ms"] = round(arrival.deadline_s * 1000)
        headers: dict[str, Any] = {"tenant": arrival.tenant}
        if facts:
            headers["sluicegate"] = facts
        try:
            self._app.send_task(
                arrival.task,
                list(arrival.args),
                dict(arrival.kwargs),
                task_id=offer_id,
                queue=arrival.queue,
                headers=headers,
                retry=False,
            )
        except AdmissionRefused as refusal:
            return Answer("refused", refusal.reason, refusal.retry_after)
        except StoreUnavailable as fault:
            return Answer("failed", f"store {fault.reason}")
        except Exception as fault:  # noqa: BLE001 a load generator counts what it meets and goes on
            return Answer("failed", type(fault).__name__)
        return Answer("accepted")

    def close(self) -> None:
        """The app is its owner's to close."""


class HttpDoor:
    """The HTTP door, with an API key for each tenant, or one for all."""

    def __init__(self, base_url: str, api_keys: Mapping[str, str], *, timeout_s: float = 10.0) -> None:
        self._clients = {
            tenant: Client(
                base_url, api_key=key, timeout_s=timeout_s, patience_s=timeout_s, retries=Retries.none()
            )
            for tenant, key in api_keys.items()
        }
        self._default = self._clients.get("*")

    def offer(self, arrival: Arrival, offer_id: str) -> Answer:
        client = self._clients.get(arrival.tenant, self._default)
        if client is None:
            return Answer("failed", f"no API key for tenant {arrival.tenant}")
        try:
            accepted = client.submit(
                arrival.task,
                arrival.args,
                arrival.kwargs,
                queue=arrival.queue,
                cost_ms=arrival.cost_ms,
                deadline_s=arrival.deadline_s,
                idempotency_key=offer_id,
            )
        except (Refused, Unavailable) as refusal:
            return Answer("refused", refusal.reason, refusal.retry_after_s)
        except ProblemError as problem:
            return Answer("failed", f"{problem.status} {problem.reason}", problem.retry_after_s)
        except Unreachable as fault:
            return Answer("failed", "unreachable" if fault.is_certain else "no answer")
        except DoorError as fault:
            return Answer("failed", type(fault).__name__)
        return Answer("refused", "shed") if accepted.status == "shed" else Answer("accepted")

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

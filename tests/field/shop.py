"""A project's own module: the two lines of the README and a task, not changed for the room."""

from __future__ import annotations

from celery import Celery
from sluicegate.transport import delivery

import sluicegate

app = Celery("shop", broker="sluicegate://localhost:6379/0")
sluicegate.install(app)


@app.task
def charge(order: int) -> str:
    delivery.check()
    return f"charged {order}"

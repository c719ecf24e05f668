"""How is a batch shown, to whoever asks?"""

from __future__ import annotations

from typing import Any

from ..models import ReplayBatch


def show_batch(batch: ReplayBatch) -> dict[str, Any]:
    left = max(0, batch.total - batch.done - batch.failed - batch.skipped)
    return {
        "id": str(batch.id),
        "verb": batch.verb,
        "state": batch.state,
        "by": batch.by,
        "reason": batch.reason,
        "filter": batch.filter,
        "total": batch.total,
        "done": batch.done,
        "failed": batch.failed,
        "skipped": batch.skipped,
        "left": left,
        "rate_per_s": batch.rate_per_s,
        "created_at_ms": int(batch.created_at.timestamp() * 1000),
        "finished_at_ms": int(batch.finished_at.timestamp() * 1000) if batch.finished_at else None,
        "note": batch.note,
        "status_url": f"/api/v1/batches/{batch.id}",
    }

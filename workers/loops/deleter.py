"""Is what was ordered to be deleted gone, everywhere, with a receipt that says so?

A pass reads every record that the gate keeps and every row of the quarantine: there is no index from tags to
operations, so tags cost nothing while nobody deletes, and nothing can be missing from it. Passes are repeated
until one finds nothing more. Each operation that was deleted is marked with the receipt, in Redis and in the
database, so the next monitor goes on where one died half way, and the last pass counts what is marked.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..actions.actor import MONITOR
from ..actions.delete_payloads import VERB, show_deletion
from ..actions.journal import write_entry
from ..actions.results import forget_result
from ..models import Deletion, QuarantinedJob, ReplayItem
from ..models.quarantined_job import NO_WORDS
from ..states import TERMINAL
from ..store import Store
from .replayer import settle

log = logging.getLogger("sluicegate.monitor")

INTERVAL_S = 0.5
AT_ONCE_S = 0.3  # work in one tick: the monitor has more to do
SCANNED, ERASED = 1000, 100  # records read, and operations erased, in one call
ROWS = 200


@dataclass(slots=True)
class Pass:
    """How far one reading of everything is. Kept in memory: who begins anew begins from the start."""

    cursor: int | None = 0
    spool_seen: bool = False
    after_pk: int | None = 0
    found: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    running: dict[str, dict[str, Any]] = field(default_factory=dict)


class Deleter:
    def __init__(self, store: Store, *, forget: Callable[[str], bool] = forget_result) -> None:
        self._store = store
        self._forget = forget
        self._passes: dict[Any, Pass] = {}

    def tick(self) -> bool:
        open_ones = list(Deletion.objects.exclude(state=Deletion.DONE).order_by("began_at_ms"))
        for finishing in open_ones:
            if finishing.state == Deletion.FINISHING:
                self._wait_for_running(finishing)
        deletion = next((row for row in open_ones if row.state == Deletion.RUNNING), None)
        if deletion is None:
            self._passes.clear()
            return False
        until = time.monotonic() + AT_ONCE_S
        current = self._passes.setdefault(deletion.pk, Pass())
        while time.monotonic() < until:
            if not self._step(deletion, current):
                self._end_pass(deletion, self._passes.pop(deletion.pk))
                break
        return False

    def _step(self, deletion: Deletion, current: Pass) -> bool:
        """One batch; False when everything was read."""
        if current.cursor is not None:
            cursor, rows = self._store.scan_records(current.cursor, count=SCANNED)
            current.cursor = cursor or None
            self._erase_records(deletion, current, rows)
        elif not current.spool_seen:
            held = self._store.read_quarantine_spool(1_000)
            ids = [row.id for row in held if matches(deletion, row.tenant, row.tags, 0, None)]
            self._erase(deletion, current, ids)
            current.spool_seen = True
        elif current.after_pk is not None:
            self._delete_rows(deletion, current)
        else:
            return False
        return True

    def _erase_records(
        self, deletion: Deletion, current: Pass, rows: list[tuple[str, dict[str, Any]]]
    ) -> None:
        ids = []
        for op_id, row in rows:
            if row.get("xd") == str(deletion.pk):
                current.tally[row.get("xp") or "settled"] += 1
                if row.get("xp") == "running":
                    self._note_running(current, op_id, row)
            elif matches(deletion, row["n"], row.get("tg") or (), row["a"], row.get("ro")):
                ids.append(op_id)
        self._erase(deletion, current, ids)

    def _erase(self, deletion: Deletion, current: Pass, ids: list[str]) -> None:
        for start in range(0, len(ids), ERASED):
            for gone in self._store.erase(str(deletion.pk), ids[start : start + ERASED]):
                if gone.place in ("again", "unknown"):
                    continue
                current.found += 1
                current.tally[gone.place] += 1
                if gone.place == "running":
                    row = {"t": gone.task, "w": gone.worker, "st": gone.started_at_ms, "s": "leased"}
                    self._note_running(current, gone.id, row)
                elif gone.place != "waiting":
                    current.tally["results"] += self._forget(gone.id)

    @staticmethod
    def _note_running(current: Pass, op_id: str, row: Mapping[str, Any]) -> None:
        current.running[op_id] = {
            "id": op_id,
            "task": row["t"],
            "worker": row.get("w") or None,
            "started_at_ms": row.get("st"),
            "became": row["s"] if row["s"] in TERMINAL else None,
        }

    def _delete_rows(self, deletion: Deletion, current: Pass) -> None:
        rows = QuarantinedJob.objects.filter(pk__gt=current.after_pk).exclude(tags=[], payload_gone="")
        if deletion.tenant:
            rows = QuarantinedJob.objects.filter(pk__gt=current.after_pk, tenant=deletion.tenant)
        wide = ("payload", "words_sealed", "traceback", "message", "args_text")
        page = list(rows.order_by("pk").defer(*wide)[:ROWS])
        current.after_pk = page[-1].pk if len(page) == ROWS else None
        mark = f"deletion {deletion.pk}"
        chosen = []
        for job in page:
            if job.payload_gone == mark:
                current.tally["quarantine"] += 1
            elif matches(deletion, job.tenant, job.tags, job.times.get("accepted_at_ms") or 0, job.replay_of):
                chosen.append(job)
        if not chosen:
            return
        keys = [job.pk for job in chosen]
        # First out of the replays that have it in hand, so that none of them puts it back.
        pending = ReplayItem.objects.select_related("batch").filter(job__in=keys, state=ReplayItem.PENDING)
        for item in pending:
            settle(item.batch, item, ReplayItem.SKIPPED, detail="deleted by request")
        self._store.erase(str(deletion.pk), [job.op_id for job in chosen])
        for job in chosen:
            current.tally["results"] += self._forget(job.op_id)
        QuarantinedJob.objects.filter(pk__in=keys).update(
            state=QuarantinedJob.DELETED,
            payload=b"",
            payload_gone=mark,
            args_text="",
            tags=[],
            bytes=0,
            **NO_WORDS,
        )
        current.found += len(keys)
        current.tally["quarantine"] += len(keys)

    def _end_pass(self, deletion: Deletion, done: Pass) -> None:
        """Nothing more was found: what is marked is what was deleted. Else it is read again."""
        results = int(deletion.counts.get("results", 0)) + done.tally.pop("results", 0)
        # A record whose time has come meanwhile is not marked any more, but it was deleted.
        most = {place: max(n, deletion.counts.get(place, 0)) for place, n in done.tally.items()}
        deletion.counts = {**deletion.counts, **most, "results": results}
        known = {row["id"]: row for row in deletion.running}
        deletion.running = list({**known, **done.running}.values())
        if done.found == 0:
            open_ended = any(row["became"] is None for row in deletion.running)
            deletion.state = Deletion.FINISHING if open_ended else Deletion.DONE
            if not open_ended:
                self._close(deletion)
                return
        deletion.save(update_fields=["counts", "running", "state"])

    def _wait_for_running(self, deletion: Deletion) -> None:
        """What ran was asked to stop and keeps nothing; the receipt says what became of each."""
        changed = False
        for row in deletion.running:
            if row["became"] is None:
                operation = self._store.read_operation(row["id"])
                if operation is None or operation.status in TERMINAL:
                    row["became"] = operation.status if operation else "no longer known"
                    deletion.counts["results"] = deletion.counts.get("results", 0) + self._forget(row["id"])
                    changed = True
        if not any(row["became"] is None for row in deletion.running):
            self._close(deletion)
        elif changed:
            deletion.save(update_fields=["counts", "running"])

    def _close(self, deletion: Deletion) -> None:
        for row in deletion.running:
            deletion.counts["results"] = deletion.counts.get("results", 0) + self._forget(row["id"])
        deletion.state, deletion.tag = Deletion.DONE, ""
        deletion.ended_at_ms = self._store.clock.now_ms()
        deletion.save()
        shown = show_deletion(deletion)
        write_entry(
            MONITOR,
            VERB,
            target=f"receipt {deletion.pk}",
            reason=f"ordered by {deletion.by}",
            after={"counts": shown["counts"], "running": len(deletion.running)},
        )
        log.info("deletion %s is done: %s", deletion.pk, deletion.counts)


def matches(deletion: Deletion, tenant: str, tags: Any, accepted_at_ms: int, replay_of: str | None) -> bool:
    """Whether a deletion means this operation: accepted before it was ordered, or a replay of such a one."""
    if accepted_at_ms > deletion.began_at_ms and not replay_of:
        return False
    if deletion.tenant and tenant != deletion.tenant:
        return False
    return not deletion.tag or deletion.tag in tags

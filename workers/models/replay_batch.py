"""How far is a replay or discard of many jobs, and what became of each?"""

import uuid

from django.db import models

from .quarantined_job import QuarantinedJob


class ReplayBatch(models.Model):
    REPLAY, DISCARD = "replay", "discard"
    RUNNING, PAUSED, DONE, STOPPED = "running", "paused", "done", "stopped"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    verb = models.CharField(max_length=10, choices=[(v, v) for v in (REPLAY, DISCARD)])
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    filter = models.JSONField(default=dict)
    total = models.PositiveIntegerField(default=0)
    done = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    rate_per_s = models.FloatField(default=20.0)
    override_expired = models.BooleanField(default=False)
    state = models.CharField(
        max_length=10,
        choices=[(s, s) for s in (RUNNING, PAUSED, DONE, STOPPED)],
        default=RUNNING,
        db_index=True,
    )
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    note = models.TextField(blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.verb} {self.id}: {self.state} {self.done}/{self.total}"


class ReplayItem(models.Model):
    PENDING, DONE, FAILED, SKIPPED = "pending", "done", "failed", "skipped"

    batch = models.ForeignKey(ReplayBatch, on_delete=models.CASCADE, related_name="items")
    job = models.ForeignKey(QuarantinedJob, on_delete=models.CASCADE, related_name="replay_items")
    new_id = models.CharField(max_length=255, blank=True, default="")
    state = models.CharField(
        max_length=10, choices=[(s, s) for s in (PENDING, DONE, FAILED, SKIPPED)], default=PENDING
    )
    detail = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["batch", "job"], name="replay_item_once_a_batch")]
        indexes = [models.Index(fields=["batch", "state"], name="replay_item_batch_state")]

    def __str__(self) -> str:
        return f"{self.job_id} in {self.batch_id}: {self.state}"

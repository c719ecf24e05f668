"""What was deleted at whose request, from where, and what ran at that moment? The receipt."""

import uuid

from django.db import models


class Deletion(models.Model):
    RUNNING, FINISHING, DONE = "running", "finishing", "done"  # finishing: waits for what ran to end
    STATES = [(s, s) for s in (RUNNING, FINISHING, DONE)]

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    tag = models.CharField(max_length=200, blank=True, default="")  # forgotten at the end: it names a person
    tag_sha256 = models.CharField(max_length=64, blank=True, default="", db_index=True)
    tenant = models.CharField(max_length=255, blank=True, default="")
    state = models.CharField(max_length=10, choices=STATES, default=RUNNING, db_index=True)
    began_at_ms = models.BigIntegerField()
    ended_at_ms = models.BigIntegerField(null=True, blank=True)
    counts = models.JSONField(default=dict)  # operations by where they were; results
    running = models.JSONField(default=list)  # what ran at the moment, and what became of it

    class Meta:
        ordering = ["-began_at_ms"]

    def __str__(self) -> str:
        return f"deletion {self.id}: {self.state}"

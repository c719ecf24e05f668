"""Who did what, when, from where, and was it allowed?"""

from django.db import models


class JournalEntry(models.Model):
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=150)
    role = models.CharField(max_length=20)
    via = models.CharField(max_length=20)
    address = models.CharField(max_length=64, blank=True)
    verb = models.CharField(max_length=60, db_index=True)
    target = models.CharField(max_length=300, blank=True)
    reason = models.TextField(blank=True)
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    outcome = models.CharField(max_length=40)  # "done", "refused", "failed"

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.target}: {self.outcome}"

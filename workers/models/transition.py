"""Which mode changed, from what to what, because of which figure?"""

from django.db import models


class Transition(models.Model):
    scope = models.CharField(max_length=200)  # "*" for the installation, else a queue
    before = models.CharField(max_length=20)
    after = models.CharField(max_length=20)
    by = models.CharField(max_length=150)
    automatic = models.BooleanField(default=False)
    pinned = models.BooleanField(default=False)
    reason = models.TextField(blank=True)
    measure = models.CharField(max_length=60, blank=True)
    value = models.FloatField(null=True, blank=True)
    threshold = models.FloatField(null=True, blank=True)
    until = models.CharField(max_length=40, blank=True)  # "", "drained" or ms since the epoch
    at_ms = models.BigIntegerField(db_index=True)

    class Meta:
        ordering = ["-at_ms", "-id"]
        indexes = [models.Index(fields=["scope", "-at_ms"], name="transition_scope_at")]

    def __str__(self) -> str:
        return f"{self.scope}: {self.before} to {self.after}"

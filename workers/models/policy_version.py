"""What was the policy of a queue, since when and by whom?"""

from django.db import models


class PolicyVersion(models.Model):
    queue = models.CharField(max_length=200)
    version = models.PositiveIntegerField()
    fields = models.JSONField()
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["queue", "-version"]
        constraints = [models.UniqueConstraint(fields=["queue", "version"], name="policy_queue_version")]

    def __str__(self) -> str:
        return f"{self.queue} v{self.version}"

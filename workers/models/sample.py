"""What did the queues look like at a past instant?"""

from django.db import models


class Sample(models.Model):
    step_s = models.PositiveIntegerField()
    at_ms = models.BigIntegerField()
    data = models.JSONField()

    class Meta:
        ordering = ["at_ms"]
        constraints = [models.UniqueConstraint(fields=["step_s", "at_ms"], name="sample_step_at")]

    def __str__(self) -> str:
        return f"{self.at_ms} at {self.step_s} s"

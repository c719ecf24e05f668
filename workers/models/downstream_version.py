"""What were the settings of a downstream, since when and by whom?"""

from django.db import models


class DownstreamVersion(models.Model):
    name = models.CharField(max_length=100)
    version = models.PositiveIntegerField()
    fields = models.JSONField(null=True)  # null: from this version on there is no such downstream
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-version"]
        constraints = [models.UniqueConstraint(fields=["name", "version"], name="downstream_name_version")]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

"""Which keys open the door, for whom and for what?"""

from django.db import models


class ApiKey(models.Model):
    prefix = models.CharField(max_length=16, db_index=True)  # shown, so that a key can be told apart
    sha256 = models.CharField(max_length=64, unique=True)  # of a high-entropy key: no password hasher needed
    tenant = models.CharField(max_length=255, default="default")
    scopes = models.JSONField(default=list)
    tasks = models.JSONField(default=list)  # globs; empty allows every registered task
    queues = models.JSONField(default=list)  # globs; empty allows every queue
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    by = models.CharField(max_length=150, blank=True, default="")
    label = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.prefix} of {self.tenant}"

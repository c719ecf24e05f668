"""Which tenants are suspended, since when, by whom and why? A row while it lasts; the journal has it all."""

from django.db import models


class Suspension(models.Model):
    tenant = models.CharField(max_length=255, unique=True)
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    at_ms = models.BigIntegerField()

    class Meta:
        ordering = ["tenant"]

    def __str__(self) -> str:
        return f"{self.tenant}, by {self.by}"

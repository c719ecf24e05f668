"""Which rules watch the queues, what fired, and who was told?"""

from django.db import models


class AlertRule(models.Model):
    MEASURES = [
        (m, m)
        for m in (
            "oldest_age_s",
            "depth",
            "shed_rate",
            "no_consumer",
            "gate_failed",
            "queues_draining",
            "quarantine_count",
            "quarantine_age_s",
            "refused_rate",
            "burn_rate_fast",
            "burn_rate_slow",
        )
    ]

    name = models.CharField(max_length=100, unique=True)
    queue = models.CharField(max_length=200, blank=True, default="")  # "" watches every queue
    measure = models.CharField(max_length=30, choices=MEASURES)
    threshold = models.FloatField()
    clear_threshold = models.FloatField()
    for_s = models.FloatField(default=0)
    severity = models.CharField(max_length=10, default="warning")
    enabled = models.BooleanField(default=True)
    targets = models.JSONField(default=list, blank=True)  # apprise URLs: secrets, shown redacted
    runbook = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return str(self.name)


class Alert(models.Model):
    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="alerts")
    queue = models.CharField(max_length=200, blank=True, default="")
    fired_at_ms = models.BigIntegerField(db_index=True)
    cleared_at_ms = models.BigIntegerField(null=True, blank=True)
    value = models.FloatField(null=True, blank=True)
    threshold = models.FloatField(null=True, blank=True)
    peak = models.FloatField(null=True, blank=True)
    acknowledged_by = models.CharField(max_length=150, blank=True, default="")
    acknowledged_at_ms = models.BigIntegerField(null=True, blank=True)
    snoozed_until_at_ms = models.BigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["-fired_at_ms", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "queue"],
                condition=models.Q(cleared_at_ms__isnull=True),
                name="alert_open_once_a_rule_and_queue",
            )
        ]

    def __str__(self) -> str:
        return f"{self.rule_id} {self.queue} at {self.fired_at_ms}"


class AlertDelivery(models.Model):
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="deliveries")
    target = models.CharField(max_length=300)  # redacted
    sent_at = models.DateTimeField(auto_now_add=True)
    ok = models.BooleanField()
    detail = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.target}: {'sent' if self.ok else 'not sent'}"

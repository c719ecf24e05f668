"""Which jobs are held, and what is known of each?"""

from typing import Any, Final

from django.db import models

from ..privacy.classes import DEFAULT_CLASS
from ..privacy.errors import open_words
from ..privacy.redact import REDACTED, redact_error

#: What is written over the words of a failure that are no longer kept.
NO_WORDS: Final[dict[str, Any]] = {"message": "", "traceback": "", "words_sealed": b"", "words_key_id": ""}


class QuarantinedJob(models.Model):
    HELD, REPLAYING, REPLAYED, DISCARDED = "held", "replaying", "replayed", "discarded"
    DELETED = "deleted"  # the row stays for the lineage, without anything that the job carried
    STATES = [(s, s) for s in (HELD, REPLAYING, REPLAYED, DISCARDED, DELETED)]

    op_id = models.CharField(max_length=255, unique=True)
    task = models.CharField(max_length=255, blank=True)
    queue = models.CharField(max_length=200)
    tenant = models.CharField(max_length=255, default="default", db_index=True)
    reason = models.CharField(max_length=40)
    error_type = models.CharField(max_length=255, blank=True)
    message = models.TextField(blank=True)
    traceback = models.TextField(blank=True)
    # Message and traceback together, encrypted, where their class withholds them: then the two are empty.
    words_sealed = models.BinaryField(default=bytes)
    words_key_id = models.CharField(max_length=8, blank=True, default="")
    payload = models.BinaryField(default=bytes)  # as it was sent; never unpickled
    payload_class = models.CharField(max_length=10, default=DEFAULT_CLASS)
    key_id = models.CharField(max_length=8, blank=True, default="", db_index=True)  # "": in clear
    payload_gone = models.CharField(max_length=200, blank=True, default="")  # why the payload is not here
    args_text = models.TextField(blank=True)  # as it may be shown unasked: redacted by class and name
    tags = models.JSONField(default=list)
    attempts = models.PositiveIntegerField(default=0)
    deliveries = models.PositiveIntegerField(default=0)
    times = models.JSONField(default=dict)
    quarantined_at_ms = models.BigIntegerField(db_index=True)
    fingerprint = models.CharField(max_length=64, blank=True)
    replay_of = models.CharField(max_length=255, blank=True, default="")
    replay_until_at_ms = models.BigIntegerField(null=True, blank=True)
    worker = models.CharField(max_length=255, blank=True, default="")
    epoch = models.BigIntegerField(null=True, blank=True)
    state = models.CharField(max_length=10, choices=STATES, default=HELD)
    replayed_as = models.CharField(max_length=255, blank=True, default="")
    bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["-quarantined_at_ms", "-id"]
        # Rows are wide (payload, traceback): what is summed over many of them is read from these alone.
        # An entry of PostgreSQL's index holds 2,700 bytes at most: two names of 255 characters, no third.
        indexes = [
            models.Index(
                fields=["state", "queue", "quarantined_at_ms", "bytes", "fingerprint", "id"],
                name="quarantine_queue_sums",
            ),
            models.Index(
                fields=[
                    *("state", "fingerprint", "task", "error_type", "reason"),
                    *("quarantined_at_ms", "bytes", "id"),
                ],
                name="quarantine_cause_sums",
            ),
            models.Index(
                fields=[
                    *("state", "tenant", "queue", "payload_class"),
                    *("fingerprint", "quarantined_at_ms", "bytes", "id"),
                ],
                name="quarantine_tenant_sums",
            ),
            models.Index(fields=["state"], name="quarantine_state"),  # in the order of the pages
        ]

    def read_words(self) -> tuple[str, str]:
        """Message and traceback.

        Raises:
            ValueError: they cannot be decrypted here; the message says which key it needs.
        """
        if not self.words_key_id:
            return self.message, self.traceback
        return open_words(bytes(self.words_sealed), self.op_id)

    def tell_error(self) -> dict[str, str]:
        """The failure as it may be told unasked; no words where they cannot be decrypted here."""
        try:
            message, traceback = self.read_words()
        except ValueError:
            message, traceback = REDACTED, ""
        error = {"type": self.error_type, "message": message, "traceback": traceback}
        return redact_error(error, self.payload_class) or error

    @property
    def deletion(self) -> str | None:
        """The receipt by which what it carried was deleted."""
        return self.payload_gone.removeprefix("deletion ") if self.state == self.DELETED else None

    def __str__(self) -> str:
        return f"{self.op_id} ({self.reason})"

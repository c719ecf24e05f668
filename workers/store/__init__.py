"""What is a gate made of in Redis, and how is it asked? The one place that knows its keys and scripts."""

from .bins import bin_of_ms, bin_value_ms, percentile_ms
from .commands import CancelReply, Store
from .offers import Offer, Verdict
from .records import Operation, QuarantinedRecord
from .turns import Claimed, Settlement

__all__ = [
    "CancelReply",
    "Claimed",
    "Offer",
    "Operation",
    "QuarantinedRecord",
    "Settlement",
    "Store",
    "Verdict",
    "bin_of_ms",
    "bin_value_ms",
    "percentile_ms",
]

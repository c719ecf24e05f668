"""What of kombu's way to publish does a message to the gate not need?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import kombu
from kombu.serialization import dumps

from .channel import GateChannel

#: What is asked of a publish that needs no more than this; with anything else, kombu's own way is taken.
_ASKED: Final = (
    *("exchange", "routing_key", "serializer", "delivery_mode", "headers", "correlation_id", "reply_to"),
    *("sluicegate_links", "expiration", "retry", "retry_policy", "timeout", "confirm_timeout"),
)
#: Celery names these of each task, mostly with nothing in them.
_UNASKED: Final = ("declare", "compression", "priority", "mandatory", "immediate")
_KNOWN: Final = frozenset(_ASKED + _UNASKED)
_PERSISTENT: Final = (None, 2, "persistent")


class DirectProducer(kombu.Producer):
    """Hands what goes to a queue by its name straight to the gate's channel, where that is open.

    kombu ensures the connection, binds the exchange, makes a delivery tag and wraps the publish in retries of
    its own. The gate's channel asks by a connection of its own and says what it could not do, and a claim
    makes the tag: so all that is spent without a use.
    """

    def publish(self, body: Any, *more: Any, **options: Any) -> Any:
        channel = self._open_channel()
        if channel is None or more or not _is_plain(options):
            return super().publish(body, *more, **options)
        content_type, content_encoding, text = dumps(body, serializer=options["serializer"])
        encoded, body_encoding = channel.encode_body(text, channel.body_encoding)
        properties = {
            "correlation_id": options.get("correlation_id"),
            "reply_to": options.get("reply_to"),
            "sluicegate_links": options["sluicegate_links"],
            "body_encoding": body_encoding,
        }
        if options.get("expiration") is not None:
            properties["expiration"] = str(int(options["expiration"] * 1000))  # ms, as AMQP has it
        message = {
            "body": encoded,
            "content-type": content_type,
            "content-encoding": content_encoding,
            "headers": options["headers"],
            "properties": properties,
        }
        return channel._put(options["routing_key"], message)

    def _open_channel(self) -> GateChannel | None:
        connection = self.__connection__
        channel = connection._default_channel if connection is not None and connection.connected else None
        return channel if isinstance(channel, GateChannel) and not channel.closed else None


def _is_plain(options: Mapping[str, Any]) -> bool:
    return (
        options.get("exchange") == ""
        and "sluicegate_links" in options
        and not any(options.get(name) for name in _UNASKED)
        and options.get("delivery_mode") in _PERSISTENT
        and isinstance(options.get("reply_to"), str)
        and options.keys() <= _KNOWN
    )

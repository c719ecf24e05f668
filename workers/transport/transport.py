"""Which URL schemes lead to the gate?"""

from __future__ import annotations

import ssl
from typing import Any

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as stock

from .channel import Channel, SentinelChannel


class Transport(stock.Transport):
    """kombu's Redis transport with the gate's channel."""

    Channel = Channel
    #: Celery turns mingle, gossip and worker_disable_prefetch on for "redis" only.
    driver_type = "redis"
    driver_name = "redis"
    #: kombu's own batch throws the server's replies away; the gate needs each verdict.
    implements = stock.Transport.implements.extend(batch_publish=False)
    supports_batch_publish = False


class TLSTransport(Transport):
    """The same over TLS; the server's certificate is checked unless ``broker_use_ssl`` says otherwise."""

    def __init__(self, client: Any, **kwargs: Any) -> None:
        if not client.ssl:
            client.ssl = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
        super().__init__(client, **kwargs)


class SentinelTransport(stock.SentinelTransport):
    """The same for a Redis that Sentinel watches (``master_name`` in broker_transport_options)."""

    Channel = SentinelChannel
    driver_type = "redis"
    implements = stock.Transport.implements.extend(batch_publish=False)
    supports_batch_publish = False


def register() -> None:
    """Makes kombu know the schemes sluicegate, sluicegates and sluicegate+sentinel."""
    here = f"{__name__}:"
    TRANSPORT_ALIASES["sluicegate"] = here + "Transport"
    TRANSPORT_ALIASES["sluicegates"] = here + "TLSTransport"
    TRANSPORT_ALIASES["sluicegate-sentinel"] = here + "SentinelTransport"

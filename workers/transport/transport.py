"""Which URL schemes lead to the gate?"""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import urlsplit

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as stock

from .channel import Channel, SentinelChannel

DEFAULT_SENTINEL_PORT = 26379

#: Transport option that marks a connection made from a sentinel URL.
BY_SENTINEL = "sluicegate_by_sentinel"


class Transport(stock.Transport):
    """kombu's Redis transport with the gate's channel."""

    Channel = Channel
    #: Celery turns mingle, gossip and worker_disable_prefetch on for "redis" only.
    driver_type = "redis"
    driver_name = "redis"
    #: kombu's own batch throws the server's replies away; the gate needs each verdict.
    implements = stock.Transport.implements.extend(batch_publish=False)
    supports_batch_publish = False

    def __init__(self, client: Any, **kwargs: Any) -> None:
        if str(client.hostname).startswith("sentinel://"):
            _read_sentinel_url(client)
        if client.transport_options.get(BY_SENTINEL):
            self.Channel = SentinelChannel
        super().__init__(client, **kwargs)


class TLSTransport(Transport):
    """The same over TLS; the server's certificate is checked unless ``broker_use_ssl`` says otherwise."""

    def __init__(self, client: Any, **kwargs: Any) -> None:
        if not client.ssl:
            client.ssl = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
        super().__init__(client, **kwargs)


def _read_sentinel_url(client: Any) -> None:
    """Takes ``sluicegate+sentinel://:PASSWORD@HOST:PORT/DB;sluicegate+sentinel://HOST:PORT`` apart.

    kombu reads a URL with a plus sign only up to the plus; the rest arrives as the host's name.
    """
    parts = urlsplit(client.hostname)
    client.alt = [url.partition("+")[2] for url in client.alt]
    client.hostname, client.port = parts.hostname, parts.port or DEFAULT_SENTINEL_PORT
    client.userid, client.password = parts.username or None, parts.password or None
    # What clones this connection finds it taken apart, and its kind among the options.
    client.uri_prefix = None
    client.transport_options = {**client.transport_options, BY_SENTINEL: True}
    client.virtual_host = parts.path.strip("/") or "0"


def register() -> None:
    """Makes kombu know the schemes; ``sluicegate+socket`` and ``sluicegate+sentinel`` need no more."""
    here = f"{__name__}:"
    TRANSPORT_ALIASES["sluicegate"] = here + "Transport"
    TRANSPORT_ALIASES["sluicegates"] = here + "TLSTransport"

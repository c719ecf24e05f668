"""Which URL schemes lead to the gate?"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlsplit

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as stock
from kombu.utils.url import as_url

from ..store.connections import read_sentinel_url
from .channel import BY_SENTINEL, Channel, SentinelChannel


class Poller(stock.MultiChannelPoller):
    """kombu's, which after the chance to claim sees that the gate is told of what has ended."""

    #: What reads a socket in the worker's event loop, by descriptor, and how this transport's stand there.
    readers: Mapping[int, Any] = MappingProxyType({})
    reads: Any = None

    @property
    def fds(self) -> dict[int, Any]:
        """kombu registers these anew with each tick, a system call each; what stands there is left out."""
        found: dict[int, Any] = super().fds
        if self.reads is None:
            return found
        return {fd: at for fd, at in found.items() if self.readers.get(fd) != (self.reads, (fd,))}

    def on_poll_start(self) -> None:
        super().on_poll_start()
        for channel in self._channels:
            channel.tell_ends()


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
        self.can_parse_url = True  # of this one, not of its class: kombu asks such a one for its as_uri
        self.cycle: Any = Poller()
        self._loop: Any = None

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """As kombu tells it, which shows a masked password where there is none."""
        assert self.client is not None
        facts = self.client.info()
        if facts["uri_prefix"]:
            raise NotImplementedError  # kombu then tells the URL as it was given, masked
        password = facts["password"]
        told: str = as_url(
            facts["transport"],
            facts["hostname"] or "localhost",
            facts["port"],
            facts["userid"],
            password() if include_password and callable(password) else password,
            quote(str(facts["virtual_host"])),
            sanitize=not include_password,
            mask=mask,
        )
        return told

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        super().register_with_event_loop(connection, loop)
        self._loop = loop
        self.cycle.readers, self.cycle.reads = loop.readers, self.on_readable

    def is_in_loop(self) -> bool:
        """Whether the caller runs in a worker's event loop, which comes to ``Poller.on_poll_start`` next."""
        return self._loop is not None and self._loop._loop_thread == threading.get_ident()


class TLSTransport(Transport):
    """The same over TLS; the server's certificate is checked unless ``broker_use_ssl`` says otherwise."""

    def __init__(self, client: Any, **kwargs: Any) -> None:
        if not client.ssl:
            client.ssl = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
        super().__init__(client, **kwargs)


def _read_sentinel_url(client: Any) -> None:
    """Takes ``sluicegate+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER?db=0`` apart.

    kombu reads a URL with a plus sign only up to the plus; the rest arrives as the host's name. Its own form,
    ``URL/DB;URL`` with ``master_name`` among the options, is read too: a path of digits is a database there.
    """
    urls = [url.removeprefix("sluicegate+") for url in client.alt] or [client.hostname]
    found = [read_sentinel_url(url) for url in urls]
    first = found[0]
    options = client.transport_options
    if first.master.isdigit():
        database, master = int(first.master), options.get("master_name") or "mymaster"
    else:
        database = first.database
        named = "?" in urls[0] or urlsplit(urls[0]).path.strip("/")
        master = first.master if named else options.get("master_name") or first.master
    nodes = [node for watched in found for node in watched.nodes]
    client.hostname, client.port = nodes[0]
    client.userid, client.password = first.username, first.password
    client.virtual_host = str(database)
    # kombu would switch among alternates by their own scheme, past the gate; the sentinels are asked in turn.
    client.alt, client.cycle = [], None
    # What clones this connection finds it taken apart, and its kind among the options.
    client.uri_prefix = None
    client.transport_options = {
        **options,
        BY_SENTINEL: nodes,
        "master_name": master,
        "sentinel_password": first.sentinel_password,
    }


def register() -> None:
    """Makes kombu know the schemes; ``sluicegate+socket`` and ``sluicegate+sentinel`` need no more."""
    here = f"{__name__}:"
    TRANSPORT_ALIASES["sluicegate"] = here + "Transport"
    TRANSPORT_ALIASES["sluicegates"] = here + "TLSTransport"

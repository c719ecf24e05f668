"""How does a test put a proxy that ends TLS in front of web processes?"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import ssl
import threading
from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class TlsProxy:
    """Speaks TLS to browsers and plain HTTP to ``ports``, one after the other, a connection a request.

    It tells by X-Forwarded-Proto and X-Forwarded-For what it was asked, as nginx is set up to.
    """

    def __init__(self, directory: Path, ports: Sequence[int]) -> None:
        self.served: Counter[int] = Counter()
        self._ports = itertools.cycle(ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.certificate = _make_certificate(directory)
        context.load_cert_chain(self.certificate)
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"https://localhost:{self.port}"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        serving = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            port = next(self._ports)
            self.served[port] += 1
            behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", port)
            lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
            if b"upgrade: websocket" not in head.lower():
                lines = [line for line in lines if not line.lower().startswith(b"connection:")]
                lines.append(b"Connection: close")
            lines += [b"X-Forwarded-Proto: https", b"X-Forwarded-For: 192.0.2.1"]
            behind_writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
            there = asyncio.create_task(_copy(reader, behind_writer))
            try:
                await _copy(behind_reader, writer)
            finally:
                there.cancel()
                behind_writer.close()
        except (OSError, asyncio.IncompleteReadError):
            pass  # one side has gone
        finally:
            writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while content := await source.read(65_536):
        target.write(content)
        await target.drain()


def _make_certificate(directory: Path) -> Path:
    """A certificate for localhost that signs itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = directory / f"proxy-{certificate.serial_number}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path

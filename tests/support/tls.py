"""Certificates of an authority of our own, and a front that speaks TLS before a port that does not.

So that clients can be tested with https and amqps before any broker. Invariant: it listens on
loopback, and all its threads end with the block.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_SERVER = """\
basicConstraints = CA:FALSE
subjectAltName = IP:127.0.0.1
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
extendedKeyUsage = serverAuth
"""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_READ_OCTETS = 65_536
DEADLINE_S = 60.0


@dataclass(frozen=True)
class Certificates:
    """``authority`` has signed ``server``, the certificate for 127.0.0.1 with its key."""

    authority: Path
    server: Path


def make_certificates(directory: Path) -> Certificates:
    """Both in files of a directory; skips the test where there is no openssl."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")

    def openssl(*arguments: str) -> None:
        subprocess.run([program, *arguments], cwd=directory, check=True, capture_output=True)

    ca = ("-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority of a test")
    openssl("req", "-x509", *_KEY, *ca, "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", *_KEY, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1")
    (directory / "server.ext").write_text(_SERVER)
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "server.ext")
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.crt", "-days", "2", *signing)
    server = directory / "server.pem"
    server.write_text(
        (directory / "server.crt").read_text() + (directory / "server.key").read_text()
    )
    return Certificates(directory / "ca.pem", server)


class _Front:
    """Accepts TLS, and hands the octets on to a port and back."""

    def __init__(self, certificates: Certificates, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates.server)
        self._backend = port
        self._pumps: set[asyncio.Task[None]] = set()

    async def serve(self, stopping: asyncio.Event, tell: Callable[[int], None]) -> None:
        """Serve until it is told to stop; ``tell`` gets the port."""
        server = await asyncio.start_server(self._join, "127.0.0.1", 0, ssl=self._context)
        tell(server.sockets[0].getsockname()[1])
        await stopping.wait()
        server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _join(self, near: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        far, questions = await asyncio.open_connection("127.0.0.1", self._backend)
        pumps = {
            asyncio.ensure_future(_pump(near, questions)),
            asyncio.ensure_future(_pump(far, answers)),
        }
        self._pumps |= pumps
        for pump in pumps:
            pump.add_done_callback(self._pumps.discard)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while octets := await source.read(_READ_OCTETS):
            sink.write(octets)
            await sink.drain()
    except OSError:  # either side is gone
        pass
    finally:
        sink.close()
        with suppress(OSError, asyncio.CancelledError):
            await sink.wait_closed()


@contextmanager
def tls_front(certificates: Certificates, port: int) -> Iterator[int]:
    """A port that speaks TLS before another one of loopback."""
    ready: Future[int] = Future()
    loop = asyncio.new_event_loop()
    stopping = asyncio.Event()
    front = _Front(certificates, port)
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(front.serve(stopping, ready.set_result))
    )
    thread.start()
    try:
        yield ready.result(DEADLINE_S)
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        loop.close()

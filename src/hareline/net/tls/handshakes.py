"""Where TLS handshakes are computed, and what they have in common: threads, deadline, counts.

One ``Handshakes`` serves all TLS ports of a broker. A signature of RSA takes a millisecond or
more, so a wave of clients would hold up the event loop; each step of a handshake is computed in one
of a few threads instead, where OpenSSL runs without the interpreter's lock.

Invariant: an ``ssl.SSLObject`` and its buffers are touched by one thread at a time: while a step is
under way, ``net.tls.stream`` leaves them alone.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from hareline import events
from hareline.amqp.ports import TlsSession
from hareline.events import Report
from hareline.net.tls.sessions import session_of

THREADS_MAX: Final = 4
READ_BUFFER_BYTES: Final = 65_536  # as much as a connection without TLS is read at a time


class Handshakes:
    """``timeout_s``: how long a client may take. ``read_buffer`` is shared: filled and emptied at
    once.
    """

    def __init__(self, report: Report, timeout_s: Callable[[], float]) -> None:
        self._report = report
        self.timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(
            min(THREADS_MAX, os.cpu_count() or 1), thread_name_prefix="tls"
        )
        self.read_buffer = memoryview(bytearray(READ_BUFFER_BYTES))
        self.done_count = 0
        self.failed_count = 0

    def begin_step(self, stream: ssl.SSLObject) -> asyncio.Future[TlsSession]:
        """Go on with a handshake as far as the octets that have come permit.

        The future has the session of a finished handshake, or raises what OpenSSL raised: an
        SSLWantReadError where more octets are needed.
        """
        return asyncio.get_running_loop().run_in_executor(self._threads, _shake, stream)

    def refuse(self, peer: str, reason: str) -> None:
        """Count and report a handshake that has failed."""
        self.failed_count += 1
        self._report(events.TLS_REFUSED, peer=peer, reason=reason)

    def pass_over(self, peer: str) -> None:
        """Report a client that has said nothing: a port scan, or a probe of health."""
        self._report(events.CONNECTION_UNUSED, peer=peer)

    def stop(self) -> None:
        """Begin no further step; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _shake(stream: ssl.SSLObject) -> TlsSession:
    stream.do_handshake()
    return session_of(stream)
